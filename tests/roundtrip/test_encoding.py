"""Encodings: what they are called, what they decode to, and what they are as options."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from programs import make_program

from mallocmuzero.env.errors import FormatError
from mallocmuzero.env.physics.objective import make_judge
from mallocmuzero.env.program.compiler_flags import KEEPS, ORDER, REFUSED
from mallocmuzero.env.program.mapping import CROSS_PROGRAM
from mallocmuzero.env.program.program import OPERAND, Program
from mallocmuzero.env.workloads import load
from mallocmuzero.roundtrip.encoding import Codec, Encoding
from mallocmuzero.roundtrip.options import order_option
from mallocmuzero.solvers.order.flags import Flags
from mallocmuzero.solvers.order.individual import Individual


def in_place() -> Program:
    """Returns a program whose second instruction writes its result in place."""
    return make_program(
        [("a", 1.0, ["p"], ["x"]), ("b", 1.0, ["x", "p"], ["x"]), ("c", 1.0, ["x", "p"], ["z"])],
        {"p": {"size": 24, "input": True}, "x": 24, "z": {"size": 24, "output": True}},
    )


def decoding_step() -> Program:
    """Returns a program that twice updates an input in place, reads it after each update, and returns it."""
    work = [(f"work.{i}", 1.0, ["h.0" if i == 3 else f"h.{i}"], [f"h.{i + 1}"]) for i in range(4)]
    return make_program(
        [
            work[3],
            ("update.1", 0.1, ["cache", "h.0"], ["cache"]),
            work[0],
            ("read.1", 0.1, ["cache", "h.1"], ["a"]),
            work[1],
            ("update.2", 0.1, ["cache", "a"], ["cache"]),
            work[2],
            ("read.2", 0.1, ["cache", "h.3"], ["b"]),
        ],
        {
            "cache": {"size": 48, "input": True, "output": True},
            "h.0": {"size": 8, "input": True},
            **{f"h.{i}": 8 for i in (1, 2, 3, 4)},
            "a": 8,
            "b": {"size": 8, "output": True},
        },
    )


def test_the_parts_that_take_an_option_are_named() -> None:
    codec = Codec(make_judge(load("tiny")), 0)
    default = codec.default()
    kept = np.ones(codec.program.num_buffers, bool)
    assert default.kind == "default"
    assert codec.options(default) == {}
    everything = replace(default, own_order=False, starts=default.starts + 1, kept_buffers=kept, flags=Flags(0.5))
    assert everything.kind == "order+starts+keeps+flags"
    options = codec.options(everything)
    assert ORDER not in options  # a buffer that stays in HBM needs no place
    assert KEEPS in options


@pytest.mark.parametrize("names", [5, None, KEEPS, [5]])
def test_refused_options_that_are_no_list_are_refused(names: object) -> None:
    program = in_place()
    program = replace(program, compiler={REFUSED: names})
    with pytest.raises(FormatError, match=r"`compiler.refused_options` is no list of options; capture it again"):
        Codec(make_judge(program, "msa"), 0)


def test_an_encoding_survives_as_arrays(tmp_path: Path) -> None:
    codec = Codec(make_judge(load("tiny")), 0)
    default = codec.default()
    crossed = replace(default, own_order=False, flags=Flags(0.35, False, True, False, 2.0), cross=(3,))
    kept = {"kept_buffers": ~default.kept_buffers, "kept_values": default.kept_values + 1}
    for encoding in (default, replace(crossed, **kept, starts=default.starts + 2)):
        np.savez(tmp_path / "encoding.npz", **encoding.arrays())
        with np.load(tmp_path / "encoding.npz") as arrays:
            again = Encoding.from_arrays(dict(arrays))
        assert (again.kind, again.flags, again.cross) == (encoding.kind, encoding.flags, encoding.cross)
        assert again.own_order is encoding.own_order
        for name in ("order", "starts", "kept_buffers", "kept_reads", "kept_values"):
            assert np.array_equal(getattr(again, name), getattr(encoding, name))


def test_a_kept_buffer_has_no_fast_access_and_a_kept_read_is_one_of_them() -> None:
    codec = Codec(make_judge(load("tiny")), 0)
    program = codec.program
    default = replace(
        codec.default(), flags=Flags(cross_program=False)
    )  # what is prefetched across programs is not kept
    free = codec.decode(default)
    fast = np.flatnonzero(free.access_fast & codec.may_keep)
    assert len(fast)
    for access in fast.tolist():
        buffer = int(program.access_buffer[access])
        kept = default.kept_buffers.copy()
        kept[buffer] = True
        assert not codec.decode(replace(default, kept_buffers=kept)).access_fast[program.access_buffer == buffer].any()
        reads = default.kept_reads.copy()
        reads[access] = True
        encoding = replace(default, kept_reads=reads)
        assert not codec.decode(encoding).access_fast[access]
        entailed = np.flatnonzero(
            (program.access_instruction == program.access_instruction[access])
            & (program.access_kind != OPERAND)
            & (program.size[program.access_buffer] == program.size[buffer])
            & (np.array(program.access_path) == program.access_path[access])
        )
        assert not codec.decode(encoding).access_fast[entailed].any()
        text = codec.options(encoding)[KEEPS]
        assert text.count("hlo_operand_filter") == (0 if buffer in program.access_buffer[entailed] else 1)
        assert text.count("hlo_position_matcher") >= len(entailed)


@pytest.mark.parametrize("values", [0, 1, 2])
def test_values_stay_in_hbm_until_they_are_written_over(values: int) -> None:
    program = decoding_step()
    codec = Codec(make_judge(program, "msa"), 0)
    cache = program.buffer_names.index("cache")
    assert codec.keepable_values[cache] == 2
    assert codec.keepable_values.sum() == 2, "of no other buffer"
    flags = Flags(cross_program=False, least=0.0, served=0.0)
    encoding = replace(
        codec.default(), flags=flags, kept_values=np.where(np.arange(program.num_buffers) == cache, values, 0)
    )
    mapping = codec.decoder(flags).repaired(codec.decode(encoding))
    accesses = np.flatnonzero(program.access_buffer == cache)
    late = program.access_instruction[accesses] > (-1, 1, 5)[values]
    assert mapping.access_fast[accesses].tolist() == late.tolist()
    assert codec.values_kept(mapping)[cache] == values
    text = codec.options(encoding).get(KEEPS, "")
    assert [name in text for name in ('"cache"', '"update[.]1"', '"update[.]2"')] == [values > 0, values > 1, False]


def test_a_buffer_that_stays_in_hbm_needs_no_values_that_do() -> None:
    program = decoding_step()
    codec = Codec(make_judge(program, "msa"), 0)
    every = np.ones(program.num_buffers, bool)
    encoding = replace(codec.default(), kept_buffers=every, kept_values=codec.keepable_values)
    assert codec.options(encoding) == codec.options(replace(codec.default(), kept_buffers=every))
    nothing = codec.decode(replace(encoding, kept_values=0 * encoding.kept_values)).access_fast
    assert np.array_equal(codec.decode(encoding).access_fast, nothing)


def test_an_input_is_prefetched_across_programs_unless_it_stays_in_hbm() -> None:
    codec = Codec(make_judge(load("tiny")), 0)
    program = codec.program
    (own,) = codec.decoder(Flags()).cross.tolist()
    assert codec.across([own]) == ()  # that takes no option
    assert codec.may_cross.nonzero()[0].tolist() == sorted({own, *codec.crossable.tolist()})
    (chosen,) = codec.across([int(codec.crossable[0])])
    encoding = replace(codec.default(), cross=(chosen,))
    assert encoding.kind == "cross"
    copies = codec.decode(encoding).copies
    assert copies[copies[:, 1] == CROSS_PROGRAM, 0].tolist() == [chosen]
    assert codec.options(encoding) == order_option(program, [], [chosen])
    kept = codec.default().kept_buffers.copy()
    kept[chosen] = True
    encoding = replace(encoding, kept_buffers=kept)
    assert encoding.kind == "keeps"
    assert not codec.decode(encoding).access_fast[program.access_buffer == chosen].any()
    assert ORDER not in codec.options(encoding)


def test_what_may_be_the_new_value_of_an_output_is_not_prefetched_across_programs() -> None:
    program = make_program(
        [("a", 1.0, ["w", "x"], ["y"]), ("b", 1.0, ["y", "w"], ["new"])],
        {
            "w": {"size": 24, "input": True},
            "x": {"size": 8, "input": True},
            "y": 24,
            "new": {"size": 24, "output": True},
        },
    )
    codec = Codec(make_judge(program, "msa"), 0)
    assert [program.buffer_names[buffer] for buffer in codec.crossable] == ["x"]


def test_no_read_is_kept_beside_a_result_in_place() -> None:
    codec = Codec(make_judge(in_place(), "msa"), 0)
    program = codec.program
    reads = program.access_kind == OPERAND
    assert not codec.may_keep[reads & (program.access_instruction == 1)].any()


def test_no_read_is_kept_of_an_instruction_that_reads_the_buffer_twice() -> None:
    program = make_program(
        [("a", 1.0, ["x", "w"], ["y"]), ("b", 1.0, ["y", "w", "w"], ["z"])],
        {"w": {"size": 24, "input": True}, "x": {"size": 8, "input": True}, "y": 16, "z": {"size": 32, "output": True}},
    )
    codec = Codec(make_judge(program, "msa"), 0)
    of_w = program.access_buffer == program.buffer_names.index("w")
    assert codec.may_keep[of_w].tolist() == [True, False, False]


def test_what_a_mapping_has_in_hbm_is_kept() -> None:
    codec = Codec(make_judge(load("tiny")), 0)
    program = codec.program
    assert program.production is not None
    fast = program.production.access_fast
    buffers, reads, alone = codec.keeps(program.production)
    assert not fast[np.isin(program.access_buffer, np.flatnonzero(buffers))].any()
    assert not fast[reads].any()
    assert reads[alone].all()
    decoded = codec.decode(replace(codec.default(), kept_buffers=buffers, kept_reads=alone))
    assert not (fast & ~decoded.access_fast).any()  # nothing is lost that the mapping has


def test_what_order_search_finds_is_an_encoding() -> None:
    tiny = load("tiny")
    codec = Codec(make_judge(tiny), 0)
    count, draw = tiny.num_buffers, np.random.default_rng(0)
    banned = np.zeros(count, bool)
    banned[np.flatnonzero(codec.keepable)[0]] = True
    eagerness = np.where(tiny.access_kind == OPERAND, 0.5, -1.0)
    individual = Individual(draw.random(count), banned, eagerness, Flags(cross_program=False))
    encoding = codec.of_individual(individual)
    assert encoding.kind == "order+starts+keeps+flags"
    assert np.array_equal(encoding.starts >= 0, eagerness >= 0.0)
    priority = np.where(banned, np.inf, individual.keys)
    expected = codec.decoder(individual.flags).decode(priority, eagerness)
    assert np.array_equal(codec.decode(encoding).access_fast, expected.access_fast)


def test_nothing_of_a_loop_is_kept() -> None:
    program = load("lstm-train-b64-s32")
    codec = Codec(make_judge(program), 0)
    in_loop = program.loop[program.access_instruction] >= 0
    assert codec.major[program.access_buffer[in_loop]].any()
    assert not codec.keepable[program.access_buffer[in_loop]].any()
    assert not codec.may_keep[in_loop].any()


@pytest.mark.parametrize("objective", ["msa", "robust"])
def test_buffers_worth_nothing_are_left_out(objective: str) -> None:
    codec = Codec(make_judge(load("tiny"), objective), 0)
    assert 0 < codec.major.sum() <= codec.program.num_buffers
