"""Small programs and mappings for the tests: by hand with `make_program`, `make_mapping`; random with `programs()`."""

import dataclasses
from collections.abc import Mapping as Dict
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from mallocmuzero.env.program.cycle_table import BY_TIME, WITHIN_SEEN, CycleTable, build_table
from mallocmuzero.env.program.mapping import COPY_FIELDS, PREFETCH, RESIDENCY_FIELDS, Mapping
from mallocmuzero.env.program.program import OPERAND, RESULT, Program, all_hbm
from mallocmuzero.env.program.target import Target

# The constants of the open-source compiler's own unit tests, and its production limits on copies.
TARGET = Target(
    name="test",
    fast_bytes=128,
    alignment=8,
    hbm_bandwidth=100.0,
    fast_bandwidth=1000.0,
    max_prefetches=40,
    max_write_backs=40,
)

Instruction = tuple[str, float, Sequence[str], Sequence[str]]
Loop = tuple[int, int, int]


def make_program(
    instructions: Sequence[Instruction],
    buffers: Dict[str, Dict[str, Any] | int],
    target: Target = TARGET,
    loops: Sequence[Loop] = (),
    reserved: Dict[str, int] | None = None,
    holds: Sequence[tuple[str, str, str]] = (),
    **fields: Any,
) -> Program:
    """Returns a program.

    Args:
      instructions: `(name, compute_s, operands, results)` each, in schedule order; operands and results are names of
        buffers. The opcode is the name up to its first dot. Every access moves the whole buffer.
      buffers: name -> `dict(size=..., input=False, output=False, fast_allowed=True)`, or just the size in bytes. An
        input is written before the program starts; another buffer is defined by the first instruction that has it as
        a result.
      target: the hardware.
      loops: `(first, last, trips)` each, instruction numbers; nesting is inferred.
      reserved: instruction name -> scoped bytes.
      holds: `(first, buffer, last)`: instruction `first` begins a collective that reads or writes the buffer, and
        `last`, which has it as an operand, ends it.
      **fields: further attributes of `Program`, which win over those made here.
    """
    described = {name: {"size": b} if isinstance(b, int) else dict(b) for name, b in buffers.items()}
    index = {name: number for number, name in enumerate(described)}
    size = np.array([b["size"] for b in described.values()], np.int64)
    definition = np.full(len(described), -1, np.int32)
    accesses: list[tuple[int, int, int, int, str]] = []
    for t, (_, _, operands, results) in enumerate(instructions):
        accesses += [(t, index[b], OPERAND, number, "{}") for number, b in enumerate(operands)]
        paths = ["{}"] if len(results) == 1 else [f"{{{number}}}" for number in range(len(results))]
        accesses += [(t, index[b], RESULT, number, paths[number]) for number, b in enumerate(results)]
        for b in results:
            if definition[index[b]] < 0 and not described[b].get("input", False):
                definition[index[b]] = t
    for name in described:
        assert described[name].get("input") or definition[index[name]] >= 0, f"nothing defines buffer {name}"
    nest = sorted(loops, key=lambda loop: (loop[0], -loop[1]))
    parent = [_innermost(nest[:number], first, last) for number, (first, last, _) in enumerate(nest)]
    names = [instruction[0] for instruction in instructions]
    buffer = np.array([a[1] for a in accesses], np.int32)
    moved = size[buffer].astype(np.float64)
    bytes_total = np.zeros(len(names))
    np.add.at(bytes_total, [a[0] for a in accesses], moved)
    made: dict[str, Any] = {
        "name": "test",
        "family": "test",
        "target": target,
        "instruction_names": tuple(names),
        "opcodes": tuple(name.split(".")[0] for name in names),
        "compute_s": np.array([instruction[1] for instruction in instructions], np.float64),
        "bytes_total": bytes_total,
        "reserved": np.array([(reserved or {}).get(name, 0) for name in names], np.int64),
        "schedule_index": np.arange(len(names), dtype=np.int32),
        "loop": np.array([_innermost(nest, t, t) for t in range(len(names))], np.int32),
        "loop_parent": np.array(parent, np.int32),
        "loop_trips": np.array([loop[2] for loop in nest], np.int64),
        "loop_first": np.array([loop[0] for loop in nest], np.int32),
        "loop_last": np.array([loop[1] for loop in nest], np.int32),
        "access_instruction": np.array([a[0] for a in accesses], np.int32),
        "access_buffer": buffer,
        "access_kind": np.array([a[2] for a in accesses], np.int8),
        "access_number": np.array([a[3] for a in accesses], np.int32),
        "access_path": tuple(a[4] for a in accesses),
        "access_bytes": moved,
        "buffer_names": tuple(described),
        "size": size,
        "definition": definition,
        "is_output": np.array([b.get("output", False) for b in described.values()], bool),
        "fast_allowed": np.array([b.get("fast_allowed", True) for b in described.values()], bool),
    }
    if holds:
        made["held_since"] = np.full(len(accesses), -1, np.int32)
        for begin, name, end in holds:
            of_buffer = [a for a, access in enumerate(accesses) if access[1] == index[name]]
            since = next(a for a in of_buffer if names[accesses[a][0]] == begin)
            last = [a for a in of_buffer if names[accesses[a][0]] == end and accesses[a][2] == OPERAND]
            made["held_since"][last] = since
    return Program(**{**made, **fields})


def _innermost(nest: Sequence[Loop], first: int, last: int) -> int:
    """Returns the last loop of `nest` (outer before inner) that contains `first..last`, or -1."""
    return max((n for n, loop in enumerate(nest) if loop[0] <= first and last <= loop[1]), default=-1)


def make_mapping(
    program: Program,
    fast: Sequence[tuple[Any, ...]] = (),
    residencies: Sequence[tuple[Any, ...]] = (),
    copies: Sequence[Dict[str, Any]] = (),
) -> Mapping:
    """Returns a mapping; instructions are given by name or number, buffers by name.

    Args:
      program: what it maps.
      fast: `(instruction, buffer)` or `(instruction, buffer, OPERAND or RESULT)`: accesses served from fast memory.
      residencies: `(buffer, start, end, offset)` of the whole buffer, or with `low, high` of a part.
      copies: `{"buffer", "start", "end"}`, and where they differ from a prefetch of the whole buffer `direction`,
        `low`, `high`, `source` and `replaces`.
    """
    name_of = {name: number for number, name in enumerate(program.buffer_names)}
    access_fast = np.zeros(program.num_accesses, bool)
    for instruction, buffer, *kind in fast:
        t = program.instruction_names.index(instruction) if isinstance(instruction, str) else instruction
        chosen = (program.access_instruction == t) & (program.access_buffer == name_of[buffer])
        if kind:
            chosen &= program.access_kind == kind[0]
        assert chosen.any(), f"instruction {instruction} does not touch buffer {buffer}"
        access_fast |= chosen
    rows = [(name_of[r[0]], *r[1:], *(() if len(r) == 6 else (0, program.size[name_of[r[0]]]))) for r in residencies]
    moves = []
    for c in copies:
        buffer = name_of[c["buffer"]]
        whole = {"direction": PREFETCH, "low": 0, "high": program.size[buffer], "source": c["buffer"], "replaces": -1}
        full = {**whole, **c}
        replaces = full["replaces"]
        if isinstance(replaces, str):
            replaces = program.instruction_names.index(replaces)
        full |= {"buffer": buffer, "source": name_of[full["source"]], "replaces": replaces}
        moves.append([full[field] for field in COPY_FIELDS])
    return Mapping(
        program_sha256=program.sha256,
        access_fast=access_fast,
        residencies=np.array(rows, np.int64).reshape(-1, len(RESIDENCY_FIELDS)),
        copies=np.array(moves, np.int64).reshape(-1, len(COPY_FIELDS)),
        origin={"solver": "by hand"},
    )


@st.composite
def programs(draw: st.DrawFn, max_instructions: int = 10, loops: bool = True) -> Program:
    """Returns a strategy for valid programs of 1 to `max_instructions` instructions.

    They have chains, fan-out, operands read twice, in-place updates, overwritten buffers, several results, program
    inputs (also ones updated in place), outputs, buffers that must not or cannot live in fast memory, scoped
    reservations, up to two loops, nested or not, when `loops`, collectives that run beside other instructions, two of
    which may read a buffer at once, results and operands that are always in HBM, and buffers that are split over two
    cores. A value that is born in a loop stays in it.
    """
    sizes = st.sampled_from([4, 8, 16, 20, 32, 64, 200])
    allowed = st.sampled_from([True, True, True, True, False])
    count = draw(st.integers(1, max_instructions))
    nest: list[Loop] = []
    for _ in range(draw(st.integers(0, 2)) if loops else 0):
        first = draw(st.integers(0, count - 1))
        last = draw(st.integers(first, count - 1))
        if all(last < f or first > g or (f <= first and last <= g) or (first <= f and g <= last) for f, g, _ in nest):
            nest.append((first, last, draw(st.integers(1, 3))))

    buffers: dict[str, dict[str, Any]] = {}
    born: dict[str, frozenset[Loop]] = {}
    for number in range(draw(st.integers(1, 3))):
        buffers[f"input.{number}"] = {"size": draw(sizes), "input": True, "fast_allowed": draw(allowed)}
        born[f"input.{number}"] = frozenset()
    instructions: list[Instruction] = []
    reserved: dict[str, int] = {}
    collectives = draw(_collectives(count, nest))
    starts, dones = dict(collectives), {done: start for start, done in collectives}
    read = ""
    for t in range(count):
        around = frozenset(loop for loop in nest if loop[0] <= t <= loop[1])
        readable = [name for name, loops_of in born.items() if loops_of <= around]
        reserved[f"fusion.{t}"] = draw(st.sampled_from([0, 0, 0, 0, 8, 40]))
        if t in starts:
            read = read or draw(st.sampled_from(readable))
            buffers[f"buffer.{t}.0"] = {"size": draw(sizes), "fast_allowed": draw(allowed)}
            instructions.append((f"fusion.{t}", 0.0, [read], [f"buffer.{t}.0"]))
            continue
        if t in dones:
            wrote = f"buffer.{dones[t]}.0"
            born[wrote] = around
            instructions.append((f"fusion.{t}", draw(st.sampled_from([0.0, 1.0])), [read, wrote], [wrote]))
            continue
        operands = draw(st.lists(st.sampled_from(readable), max_size=3))
        results = []
        # What a collective reads is not written meanwhile, and what it writes is not touched.
        running = any(start < t < done for start, done in collectives)
        writable = [name for name in readable if not (running and name == read)]
        shape = draw(st.sampled_from(["new", "new", "new", "two", "in place", "overwrite", "new and in place"]))
        in_place = [name for name in operands if name in writable]
        if "in place" in shape and in_place:
            results.append(draw(st.sampled_from(in_place)))
        if shape == "overwrite" and writable:
            results.append(draw(st.sampled_from(writable)))
        for number in range({"new": 1, "two": 2, "new and in place": 1}.get(shape, 0)):
            name = f"buffer.{t}.{number}"
            buffers[name] = {"size": draw(sizes), "fast_allowed": draw(allowed)}
            born[name] = around
            results.append(name)
        instructions.append((f"fusion.{t}", draw(st.sampled_from([0.0, 0.1, 1.0, 3.0])), operands, results))
    for name in draw(st.lists(st.sampled_from([n for n, around in born.items() if not around]), unique=True)):
        buffers[name]["output"] = True
    target = Target(
        name="random",
        fast_bytes=draw(st.sampled_from([64, 128])),
        alignment=draw(st.sampled_from([4, 8])),
        hbm_bandwidth=100.0,
        fast_bandwidth=1000.0,
        max_prefetches=draw(st.sampled_from([1, 2, 40])),
        max_write_backs=draw(st.sampled_from([1, 2, 40])),
    )
    holds = [
        (f"fusion.{start}", name, f"fusion.{done}")
        for start, done in collectives
        for name in (read, f"buffer.{start}.0")
    ]
    program = make_program(instructions, buffers, target, nest, reserved, holds)
    if draw(st.sampled_from([True, False, False])):
        parts = [draw(st.sampled_from([0, -(-size // 2), min(size, size // 2 + 4)])) for size in program.size.tolist()]
        program = dataclasses.replace(program, split=np.array(parts) if any(parts) else None)
    operands_too = draw(st.booleans())
    some = np.flatnonzero((program.access_kind == RESULT) | operands_too).tolist()
    if not some or not draw(st.sampled_from([True, False, False])):
        return program
    in_hbm = np.zeros(program.num_accesses, bool)
    in_hbm[draw(st.lists(st.sampled_from(some), min_size=1, unique=True))] = True
    return dataclasses.replace(program, hbm_accesses=in_hbm)


@st.composite
def _collectives(draw: st.DrawFn, count: int, nest: Sequence[Loop]) -> list[tuple[int, int]]:
    """Returns a strategy for up to two collectives, as the instructions that begin and end them.

    The second begins while the first runs. Each begins and ends in the same loops.
    """

    def around(t: int) -> list[Loop]:
        return [loop for loop in nest if loop[0] <= t <= loop[1]]

    start, done = sorted((draw(st.integers(0, count - 1)), draw(st.integers(0, count - 1))))
    if start == done or around(start) != around(done):
        return []
    second = draw(st.integers(start, done - 1))
    end = draw(st.integers(second, count - 1))
    fits = start < second < end != done and around(start) == around(second) == around(end)
    return [(start, done), (second, end)] if fits else [(start, done)]


def make_cycles(
    program: Program, pairs: Dict[tuple[int, int], int], row: Sequence[int] | None = None, **fields: Any
) -> CycleTable:
    """Returns a cycle table `{(row, placement): cycles}`; without `row` every instruction has its own."""
    rows = np.arange(program.num_instructions) if row is None else np.array(row)
    return build_table(rows.astype(np.int32), dict(pairs), **fields)


@st.composite
def programs_with_cycles(draw: st.DrawFn, max_instructions: int = 10, loops: bool = True) -> Program:
    """Returns a strategy for programs of `programs` with a clock and a random cycle table, monotonic or not.

    Instructions with equally many accesses may share a row; some cost nothing; few or many placements were seen. Some
    have a production mapping.
    """
    program = draw(programs(max_instructions, loops))
    counts = np.diff(program.access_start).tolist()
    row: list[int] = []
    accesses_of: list[int] = []
    for count in counts:
        alike = [r for r, k in enumerate(accesses_of) if k == count]
        chosen = draw(st.sampled_from([-1, None, None, *alike]))
        if chosen is None:
            chosen = len(accesses_of)
            accesses_of.append(count)
        row.append(chosen)
    pairs: dict[tuple[int, int], int] = {}
    for r, count in enumerate(accesses_of):
        for placement in draw(st.sets(st.integers(0, 2**count - 1), min_size=1, max_size=6)):
            pairs[r, placement] = draw(st.integers(0, 500))
    target = dataclasses.replace(program.target, clock_hz=100.0)
    table = make_cycles(program, pairs, row, completion=draw(st.sampled_from([WITHIN_SEEN, BY_TIME])))
    program = dataclasses.replace(program, target=target, cycles=table)
    return dataclasses.replace(program, production=all_hbm(program)) if draw(st.booleans()) else program
