"""The decoder on small programs: the cases of XLA's `memory_space_assignment_test.cc` that a program can express."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import TARGET, make_program, programs

from mallocmuzero.env.errors import UserError
from mallocmuzero.env.physics.simulator import simulate
from mallocmuzero.env.program.compiler_flags import BANDWIDTH, CROSS_PROGRAM, LOOP_OPTIMISER, flag_grid
from mallocmuzero.env.program.mapping import CROSS_PROGRAM as ACROSS
from mallocmuzero.env.program.mapping import PREFETCH, WRITE_BACK, Mapping
from mallocmuzero.env.program.program import OPERAND, RESULT, Program
from mallocmuzero.env.program.target import GENERATIONS
from mallocmuzero.env.verifier.verify import verify
from mallocmuzero.env.workloads import load
from mallocmuzero.solvers.common.budget import Budget
from mallocmuzero.solvers.solve import solve
from mallocmuzero.solvers.xla.decoder import Decoder
from mallocmuzero.solvers.xla.options import Options, from_flags, production

# The open-source tests count instructions: a prefetch takes 2 to 10 of them. Ours of 0.24 s each come near that.
COUNTING = Options(typical_bytes=48, min_overlap=0.5, preferred_overlap=4.0, max_overlap=2.0, cross_program=0)
NO_PREFETCH = dataclasses.replace(COUNTING, typical_bytes=10**6)
INPUT = {"size": 24, "input": True}
OUTPUT = {"size": 24, "output": True}


def run(program: Program, options: Options = COUNTING, **how: Any) -> Mapping:
    mapping = Decoder(program, None, options).decode(**how)
    assert verify(program, program.target, mapping) == []
    return mapping


def served(program: Program, mapping: Mapping, instruction: str, buffer: str, kind: int = OPERAND) -> bool:
    t, b = program.instruction_names.index(instruction), program.buffer_names.index(buffer)
    chosen = (program.access_instruction == t) & (program.access_buffer == b) & (program.access_kind == kind)
    assert chosen.any()
    return bool(mapping.access_fast[chosen].all())


def moves(program: Program, mapping: Mapping, buffer: str, direction: int = PREFETCH) -> list[tuple[int, int]]:
    rows = mapping.copies
    mine = rows[(rows[:, 0] == program.buffer_names.index(buffer)) & (rows[:, 1] == direction)]
    return [(int(start), int(end)) for start, end in mine[:, 2:4]]


def offsets(program: Program, mapping: Mapping, buffer: str) -> set[int]:
    rows = mapping.residencies
    return set(rows[rows[:, 0] == program.buffer_names.index(buffer), 3].tolist())


def test_simple() -> None:
    program = make_program(
        [("add", 0.0, ["p0", "p1"], ["a"]), ("sub", 0.0, ["p0", "p1"], ["s"]), ("mul", 0.0, ["a", "s"], ["m"])],
        {"p0": INPUT, "p1": INPUT, "a": 24, "s": 24, "m": OUTPUT},
    )
    mapping = run(program, NO_PREFETCH)
    assert len(mapping.copies) == 0
    for name, made in (("add", "a"), ("sub", "s")):
        assert served(program, mapping, name, made, RESULT)
        assert served(program, mapping, "mul", made)
    assert offsets(program, mapping, "a").isdisjoint(offsets(program, mapping, "s"))
    assert not served(program, mapping, "add", "p0")
    assert not served(program, mapping, "mul", "m", RESULT)


def negate_chain(length: int = 7) -> Program:
    instructions = [("negate.0", 0.24, ["p0"], ["n0"])]
    instructions += [(f"negate.{i}", 0.24, [f"n{i - 1}"], [f"n{i}"]) for i in range(1, length)]
    instructions += [("add", 0.24, [f"n{length - 1}", "p1"], ["out"])]
    buffers: dict[str, Any] = {f"n{i}": 24 for i in range(length)}
    return make_program(instructions, {"p0": INPUT, "p1": INPUT, **buffers, "out": OUTPUT})


def test_negate_chain() -> None:
    program = negate_chain()
    mapping = run(program)
    ((start, end),) = moves(program, mapping, "p1")
    assert start < end - 2
    assert program.instruction_names[end] == "add"
    assert served(program, mapping, "add", "p1")
    for i in range(6):
        assert served(program, mapping, f"negate.{i + 1}", f"n{i}")


def evict_and_prefetch(late: int = 1, outputs: bool = True) -> Program:
    # `t` is used at once and at the end; ten instructions in between need all of fast memory.
    busy = [(f"busy.{i}", 0.24, [f"b{i - 1}"] if i else ["p0"], [f"b{i}"]) for i in range(10)]
    tail = [(f"late.{i}", 0.24, ["b9", "t"], [f"l{i}"]) for i in range(late)]
    buffers: dict[str, Any] = {f"b{i}": 48 for i in range(10)}
    buffers |= {f"l{i}": {"size": 24, "output": outputs} for i in range(late)}
    return make_program(
        [("tanh", 0.24, ["p0"], ["t"]), ("use", 0.24, ["t"], ["u"]), *busy, *tail],
        {"p0": INPUT, "t": 56, "u": OUTPUT, **buffers},
    )


SHORT_STAYS = dataclasses.replace(COUNTING, max_overlap=1.2)


def test_evict_and_prefetch() -> None:
    program = evict_and_prefetch()
    mapping = run(program, SHORT_STAYS)
    ((out, home),) = moves(program, mapping, "t", WRITE_BACK)
    ((start, end),) = moves(program, mapping, "t")
    assert out == 0  # while it is still being read
    assert home <= start < end == program.instruction_names.index("late.0")
    assert served(program, mapping, "late.0", "t")


def test_two_late_uses_come_from_one_write_back() -> None:
    program = evict_and_prefetch(late=2)
    mapping = run(program, dataclasses.replace(SHORT_STAYS, max_overlap=0.8))
    assert len(moves(program, mapping, "t", WRITE_BACK)) == 1
    ((_, home),) = moves(program, mapping, "t", WRITE_BACK)
    assert moves(program, mapping, "t")
    assert all(start >= home for start, _ in moves(program, mapping, "t"))


@pytest.mark.parametrize("limit", [0, 1, 2])
def test_no_more_copies_in_flight_than_allowed(limit: int) -> None:
    names = [f"w{i}" for i in range(6)]
    program = make_program(
        [(f"negate.{i}", 0.5, [f"n{i - 1}"] if i else ["p"], [f"n{i}"]) for i in range(8)]
        + [(f"add.{i}", 0.5, [w, "n7"], [f"o{i}"]) for i, w in enumerate(names)],
        {"p": {"size": 8, "input": True}}
        | {w: {"size": 8, "input": True} for w in names}
        | {f"n{i}": 8 for i in range(8)}
        | {f"o{i}": {"size": 8, "output": True} for i in range(6)},
    )
    mapping = run(program, dataclasses.replace(COUNTING, max_prefetches=limit))
    flying = np.zeros(program.num_instructions + 1, int)
    for start, end in mapping.copies[mapping.copies[:, 1] == PREFETCH][:, 2:4]:
        flying[start + 1 : end + 1] += 1
    assert flying.max(initial=0) <= limit
    assert (limit > 0) == bool(flying.any())


def test_the_last_use_decides_where_a_buffer_goes() -> None:
    # `a` would fit below for its first use, but not up to its last.
    program = make_program(
        [
            ("add1", 0.0, ["p"], ["a"]),
            ("sub1", 0.0, ["a", "p"], ["s"]),
            ("mul1", 0.0, ["p", "s"], ["big"]),
            ("add2", 0.0, ["big"], ["o"]),
            ("mul2", 0.0, ["a", "o"], ["out"]),
        ],
        {"p": INPUT, "a": 24, "s": {"size": 8, "fast_allowed": False}, "big": 64, "o": 24, "out": OUTPUT},
    )
    first = [program.buffer_names.index(b) == program.buffer_names.index("big") for b in program.buffer_names]
    mapping = run(program, NO_PREFETCH, priority=np.where(first, 0, 1))
    assert offsets(program, mapping, "big") == {0}
    assert offsets(program, mapping, "a") == {64}
    assert served(program, mapping, "mul2", "a")
    assert len(mapping.copies) == 0


def test_a_buffer_without_gain_comes_last() -> None:
    # tanh computes for long: its result may stay where it is. Only one of them fits.
    program = make_program(
        [
            ("tanh", 9.0, ["p0"], ["t"]),
            ("negate", 0.0, ["p0"], ["n"]),
            ("sub", 0.0, ["n"], ["s"]),
            ("sink", 9.0, ["t"], ["o"]),
            ("root", 0.0, ["s"], ["r"]),
        ],
        {"p0": {"size": 96, "input": True}, "t": 96, "n": 96, "s": OUTPUT, "o": OUTPUT, "r": OUTPUT},
    )
    mapping = run(program, NO_PREFETCH)
    assert served(program, mapping, "negate", "n", RESULT)
    assert not served(program, mapping, "tanh", "t", RESULT)


@pytest.mark.parametrize(("late", "expected"), [(2, []), (4, [(1, 4)])])
def test_copies_wait_for_the_bandwidth_that_instructions_leave(late: int, expected: list[tuple[int, int]]) -> None:
    # Ten seconds each; a copy takes twenty. That of `p0` has the time of instructions 0 and 1.
    target = dataclasses.replace(TARGET, fast_bytes=600, hbm_bandwidth=12.8)
    steps = [(name, 10.0, [f"x{i - 1}"] if i else ["p"], [f"x{i}"]) for i, name in enumerate("abcdefg")]
    steps[3] = ("d", 10.0, ["x2", "p0"], ["x3"])
    steps[late] = ("late", 10.0, [f"x{late - 1}", "p1"], [f"x{late}"])
    program = make_program(
        steps,
        {"p": {"size": 8, "input": True}, "p0": {"size": 256, "input": True}, "p1": {"size": 256, "input": True}}
        | {f"x{i}": {"size": 8, "output": i == 6} for i in range(7)},
        target,
    )
    large = np.isin(program.access_buffer, [program.buffer_names.index("p0"), program.buffer_names.index("p1")])
    moved = np.where(large, 8.0, program.access_bytes)  # they read little of it, or they would take long
    program = dataclasses.replace(
        program, access_bytes=moved, bytes_total=np.bincount(program.access_instruction, weights=moved)
    )
    order = np.array([{"p0": 0, "p1": 1}.get(name, 2) for name in program.buffer_names])
    options = Options(typical_bytes=256, preferred_overlap=1.0, inefficient_ratio=0.0, cross_program=0)
    mapping = run(program, options, priority=order)
    assert moves(program, mapping, "p0") == [(-1, 3)]
    assert moves(program, mapping, "p1") == expected


def test_repacking_gathers_free_memory() -> None:
    # `a` lies low and `b` above it, so that two gaps are left where the sum is needed.
    program = make_program(
        [
            ("make.a", 0.0, ["p"], ["a"]),
            ("make.b", 0.0, ["a"], ["b"]),
            ("end.a", 0.0, ["a", "b"], ["o1"]),
            ("make.d", 0.0, ["b"], ["d"]),
            ("end.d", 0.0, ["d", "b"], ["o2"]),
        ],
        {"p": INPUT, "a": 32, "b": 32, "d": 96, "o1": OUTPUT, "o2": OUTPUT},
    )
    order = np.array([{"a": 0, "b": 1, "d": 2}.get(name, 3) for name in program.buffer_names])
    without = run(program, dataclasses.replace(NO_PREFETCH, repacks=0), priority=order)
    assert offsets(program, without, "a") == {0}
    assert not served(program, without, "make.d", "d", RESULT)
    packed = run(program, dataclasses.replace(NO_PREFETCH, repacks=1), priority=order)
    assert served(program, packed, "make.d", "d", RESULT)
    assert offsets(program, packed, "b") == {0}


def in_place_update(share: float) -> Program:
    """A fusion that changes a few bytes of an input and returns it, before and after a chain."""
    chain = [(f"negate.{i}", 0.24, [f"n{i - 1}"] if i else ["p"], [f"n{i}"]) for i in range(8)]
    program = make_program(
        [*chain, ("update", 0.24, ["x", "n7"], ["x"]), *[(f"wait.{i}", 0.24, ["n7"], [f"w{i}"]) for i in range(4)]],
        {"p": INPUT, "x": {"size": 24, "input": True, "output": True}}
        | {f"n{i}": 24 for i in range(8)}
        | {f"w{i}": OUTPUT for i in range(4)},
    )
    t, x = program.instruction_names.index("update"), program.buffer_names.index("x")
    mine = (program.access_instruction == t) & (program.access_buffer == x)
    moved = np.where(mine, program.access_bytes * share, program.access_bytes)
    total = np.bincount(program.access_instruction, weights=moved)
    return dataclasses.replace(program, access_bytes=moved, bytes_total=total)


def test_an_inefficient_stay_is_dropped() -> None:
    program = in_place_update(1 / 12)
    assert moves(program, run(program, dataclasses.replace(COUNTING, inefficient_ratio=0.0)), "x")
    assert not moves(program, run(program), "x")
    whole = in_place_update(1.0)
    mapping = run(whole)
    assert moves(whole, mapping, "x")
    assert moves(whole, mapping, "x", WRITE_BACK)
    assert served(whole, mapping, "update", "x", RESULT)


def test_cross_program_prefetch() -> None:
    program = negate_chain()
    mapping = run(program, dataclasses.replace(NO_PREFETCH, cross_program=1))
    across = mapping.copies[mapping.copies[:, 1] == ACROSS]
    assert len(across) == 1
    assert across[0, 2] == -1
    assert len(run(program, NO_PREFETCH).copies) == 0


def test_what_needs_an_input_in_hbm_reads_it_there_although_it_is_prefetched_across_programs() -> None:
    program = make_program(
        [("a", 1.0, ["p"], ["x"]), ("b", 1.0, ["p", "x"], ["r"])],
        {"p": {"size": 8, "input": True}, "x": 8, "r": {"size": 8, "output": True}},
    )
    reads = (program.access_buffer == program.buffer_names.index("p")) & (program.access_kind == OPERAND)
    first = np.flatnonzero(reads)[:1]
    options = dataclasses.replace(NO_PREFETCH, cross_program=1)
    for in_hbm, across in ((first, 1), (np.flatnonzero(reads), 0)):
        accesses = np.isin(np.arange(program.num_accesses), in_hbm)
        bound = dataclasses.replace(program, hbm_accesses=accesses)
        mapping = run(bound, options)  # verifies it
        assert np.count_nonzero(mapping.copies[:, 1] == ACROSS) == across
        assert not mapping.access_fast[in_hbm].any()


def test_the_input_that_is_prefetched_across_programs_can_be_chosen() -> None:
    program = make_program(
        [("a", 1.0, ["p"], ["x"]), ("b", 1.0, ["x", "q"], ["y"]), ("c", 1.0, ["y", "r"], ["z"])],
        {"p": INPUT, "q": {"size": 8, "input": True}, "r": {"size": 4, "input": True}, "x": 24, "y": 24, "z": OUTPUT},
    )
    decoder = Decoder(program, options=dataclasses.replace(NO_PREFETCH, cross_program=1))

    def across(**how: Any) -> list[str]:
        copies = decoder.decode(**how).copies
        return [program.buffer_names[buffer] for buffer in copies[copies[:, 1] == ACROSS, 0]]

    assert across() == ["p"]
    assert [program.buffer_names[buffer] for buffer in decoder.crossable()] == ["p", "q", "r"]
    for name in ("q", "r"):
        assert across(cross=[program.buffer_names.index(name)]) == [name]
    assert not run(program, NO_PREFETCH, cross=[1]).copies[:, 1].any()  # where none is allowed, none is chosen
    names = dataclasses.replace(program, buffer_names=("constant.1", "constants.1", *program.buffer_names[2:]))
    assert [names.buffer_names[buffer] for buffer in Decoder(names).crossable()] == ["constants.1", "r"]


def test_an_input_that_a_loop_reads_first_arrives_before_the_loop() -> None:
    program = make_program(
        [("a", 1.0, [], ["x"]), ("b", 1.0, ["p", "x"], ["y"]), ("c", 1.0, ["y"], ["x"]), ("d", 1.0, ["x"], ["z"])],
        {"p": INPUT, "x": 8, "y": 8, "z": OUTPUT},
        loops=[(1, 2, 3)],
    )
    mapping = run(program, dataclasses.replace(NO_PREFETCH, cross_program=1))
    (copy,) = mapping.copies[mapping.copies[:, 1] == ACROSS].tolist()
    assert copy[2] == -1
    assert copy[3] <= 1
    assert mapping.access_fast[program.access_buffer == 0].all()


def test_a_cross_program_prefetch_is_freed_where_memory_is_short() -> None:
    # The first instruction uses it; the program then needs the memory.
    chain = [(f"negate.{i}", 0.24, [f"n{i - 1}"] if i else ["p0"], [f"n{i}"]) for i in range(12)]
    program = make_program(
        chain,
        {"p0": {"size": 96, "input": True}} | {f"n{i}": {"size": 64, "output": i == 11} for i in range(12)},
    )
    options = Options(typical_bytes=24, max_overlap=8.0, cross_program=1)
    mapping = run(program, options)
    rows = mapping.residencies[mapping.residencies[:, 0] == program.buffer_names.index("p0")]
    assert len(rows) == 2
    assert rows[1, 2] == program.num_instructions - 1
    assert rows[0, 3] == rows[1, 3]
    assert served(program, mapping, "negate.3", "n2")


def test_a_read_can_be_kept_in_hbm() -> None:
    program = make_program(
        [("a", 1.0, ["p"], ["x"]), ("b", 1.0, ["x"], ["y"]), ("c", 1.0, ["x", "y"], ["z"])],
        {"p": INPUT, "x": 24, "y": 24, "z": OUTPUT},
    )
    free = run(program)
    assert served(program, free, "b", "x")
    assert served(program, free, "c", "x")
    in_hbm = np.zeros(program.num_accesses, bool)
    (read,) = np.flatnonzero((program.access_instruction == 2) & (program.access_buffer == 1))
    in_hbm[read] = True
    kept = run(program, in_hbm=in_hbm)
    assert served(program, kept, "b", "x")
    assert not served(program, kept, "c", "x")
    assert moves(program, kept, "x", WRITE_BACK)


def test_the_order_can_be_overridden() -> None:
    program = make_program(
        [("a", 0.0, ["p"], ["x"]), ("b", 0.0, ["p"], ["y"]), ("c", 0.0, ["x", "y"], ["o"])],
        {"p": {"size": 8, "input": True}, "x": 96, "y": 96, "o": OUTPUT},
    )
    for first in ("x", "y"):
        order = np.array([0 if name == first else 1 for name in program.buffer_names])
        mapping = run(program, NO_PREFETCH, priority=order)
        for name, made in (("a", "x"), ("b", "y")):
            assert served(program, mapping, name, made, RESULT) == (made == first)


@pytest.mark.parametrize(("wanted", "expected"), [(5, 5), (3, 3), (0.9, None), (0.1, None)])
def test_the_start_of_a_prefetch_can_be_chosen(wanted: float, expected: int | None) -> None:
    program = negate_chain(12)
    access = int(np.flatnonzero(program.access_buffer == program.buffer_names.index("p1"))[0])
    starts = np.full(program.num_accesses, -1, type(wanted))
    starts[access] = wanted
    options = dataclasses.replace(COUNTING, max_overlap=8.0)
    ((start, _),) = moves(program, run(program, options, wanted_start=starts), "p1")
    if expected is not None:
        assert start == expected
    else:
        assert abs(start - wanted * 12) <= 2


def test_eagerness_tells_the_compiler_every_start_from_the_last_use_on() -> None:
    program = make_program(
        [("a", 0.0, ["w"], ["x"]), *((f"s{n}", 0.0, ["x"], [f"y{n}"]) for n in range(6)), ("b", 0.0, ["w"], ["o"])],
        {"w": {"size": 8, "input": True}, "x": 8, **{f"y{n}": 8 for n in range(6)}, "o": OUTPUT},
    )
    _, last = np.flatnonzero(program.access_buffer == program.buffer_names.index("w")).tolist()
    decoder = Decoder(program)
    since, end = program.schedule_index[[0, 7]].tolist()
    for after in range(7):
        starts = np.full(program.num_accesses, -1)
        starts[last] = after
        told = decoder.eagerness(starts)
        # What XLA makes of it, in single precision (`GetPrefetchTimeByEagerness`).
        assert since + int(np.float32(end - since) * np.float32(told[last])) == program.schedule_index[after]
        assert np.all(np.delete(told, last) == -1.0)
    # A start before the last use of the value is told as that time.
    of_x = np.flatnonzero(program.access_buffer == program.buffer_names.index("x"))
    starts = np.full(program.num_accesses, -1)
    starts[of_x[-1]] = 0
    assert decoder.eagerness(starts)[of_x[-1]] == 0.0


def test_a_large_prefetch_is_cut_into_slices() -> None:
    chain = [(f"negate.{i}", 1.0, [f"n{i - 1}"] if i else ["p"], [f"n{i}"]) for i in range(8)]
    target = dataclasses.replace(TARGET, fast_bytes=65536, hbm_bandwidth=8192.0, fast_bandwidth=81920.0, alignment=4096)
    program = make_program(
        [*chain, ("add", 1.0, ["n7", "w"], ["out"])],
        {"p": INPUT, "w": {"size": 16384, "input": True}} | {f"n{i}": 8 for i in range(8)} | {"out": OUTPUT},
        target,
    )
    options = Options(slice_min_bytes=8192, typical_bytes=16384, cross_program=0)
    mapping = run(program, options)
    parts = mapping.copies[mapping.copies[:, 0] == program.buffer_names.index("w")]
    assert parts[:, 5].max() == 16384
    assert (parts[:, 5] - parts[:, 4]).tolist() == [4096] * 4
    assert len(set(parts[:, 2].tolist())) > 1
    assert len(moves(program, run(program, dataclasses.replace(options, slice_min_bytes=32768)), "w")) == 1


@settings(max_examples=80, deadline=None)
@given(programs(), st.integers(0, 2**31), st.booleans())
def test_every_mapping_is_legal(program: Program, seed: int, cut: bool) -> None:
    generator = np.random.default_rng(seed)
    # The compiler's schedule also counts what a program leaves out.
    times = np.cumsum(generator.integers(1, 3, program.num_instructions)).astype(np.int32)
    program = dataclasses.replace(program, schedule_index=times)
    decoder = Decoder(program, None, Options(slice_min_bytes=16 if cut else 10**9))
    order = generator.normal(size=program.num_buffers)
    starts = generator.integers(-1, program.num_instructions, program.num_accesses)
    for how in ({}, {"priority": order, "wanted_start": starts}, {"wanted_start": generator.random(len(starts))}):
        mapping = decoder.decode(**how)
        assert verify(program, program.target, mapping) == []
        again = decoder.decode(**how)
        assert (again.residencies.tolist(), again.copies.tolist()) == (
            mapping.residencies.tolist(),
            mapping.copies.tolist(),
        )


@pytest.mark.parametrize("name", ["tiny", "resnet50-b32-v4", "vit-b8-v6e", "llama-decode-b4-s2048-v5p"])
def test_it_makes_the_compilers_own_mapping(name: str) -> None:
    program = load(name)
    mapping = Decoder(program).decode()
    assert verify(program, program.target, mapping) == []
    assert program.production is not None
    assert (mapping.access_fast == program.production.access_fast).mean() > 0.999
    ours, theirs = (simulate(program, program.target, m).latency_s for m in (mapping, program.production))
    assert ours == pytest.approx(theirs, rel=5e-3)


def test_flags() -> None:
    target = GENERATIONS["v5e"]
    assert from_flags(target, {}) == production(target)
    for flags in flag_grid().values():
        options = from_flags(target, flags)
        assert options.copy_bandwidth_scale == float(flags.get(BANDWIDTH, 1.0))
        assert options.loop_optimiser == (LOOP_OPTIMISER not in flags)
        assert options.cross_program == int(flags.get(CROSS_PROGRAM, 1))
    with pytest.raises(UserError, match="does not know"):
        from_flags(target, {"xla_tpu_scoped_vmem_limit_kib": "1"})
    with pytest.raises(UserError, match="does not know"):
        from_flags(target, {BANDWIDTH: "fast"})
    with pytest.raises(UserError, match="retries"):
        Options(retries=0)


def test_the_solver_xla_is_the_default_decode() -> None:
    solution = solve(load("tiny"), "xla", objective="msa", budget=Budget(10.0))
    assert solution.judged_s == pytest.approx(444e-6, rel=5e-3)
    assert not solution.stopped
