"""Colored accesses in our copy of XLA's algorithm: what a kernel must have in fast memory or in HBM is there."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compiler_cases import KERNELS_TPU7X, assembled, unpacked
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import make_program, programs

from mallocmuzero.env.physics.objective import make_judge
from mallocmuzero.env.program.kernel_colors import FAST, FREE, HBM, own_colors
from mallocmuzero.env.program.mapping import PREFETCH, WRITE_BACK, Mapping
from mallocmuzero.env.program.program import RESULT, Program
from mallocmuzero.env.verifier.verify import verify
from mallocmuzero.solvers.xla.decoder import Decoder
from mallocmuzero.solvers.xla.options import Options

# As in `test_decoder.py`.
COUNTING = Options(typical_bytes=48, min_overlap=0.5, preferred_overlap=4.0, max_overlap=2.0, cross_program=0)
INPUT = {"size": 40, "input": True}


def colored(
    program: Program, colors: dict[tuple[str, str], int], options: Options | None = None, **how: Any
) -> Mapping:
    """Returns the mapping with colors by the names of instruction and buffer."""
    given_colors = np.full(program.num_accesses, FREE, np.int8)
    for (instruction, buffer), color in colors.items():
        t, b = program.instruction_names.index(instruction), program.buffer_names.index(buffer)
        given_colors[(program.access_instruction == t) & (program.access_buffer == b)] = color
    mapping = Decoder(program, None, options).decode(colors=given_colors, **how)
    assert verify(program, program.target, mapping) == []
    assert (mapping.access_fast[given_colors == FAST]).all()
    assert not (mapping.access_fast[given_colors == HBM]).any()
    return mapping


def chain() -> Program:
    """Returns a program of four instructions in a row; the last reads the first one's result too."""
    return make_program(
        [
            ("a", 1.0, ["p"], ["x"]),
            ("b", 1.0, ["x"], ["y"]),
            ("c", 1.0, ["y"], ["z"]),
            ("d", 1.0, ["x", "z"], ["o"]),
        ],
        {"p": INPUT, "x": 40, "y": 40, "z": 40, "o": {"size": 40, "output": True}},
    )


def copies(program: Program, mapping: Mapping, buffer: str, direction: int) -> list[list[int]]:
    rows = mapping.copies
    mine = rows[(rows[:, 0] == program.buffer_names.index(buffer)) & (rows[:, 1] == direction)]
    rounds: list[list[int]] = mine[:, 2:4].tolist()
    return rounds


def test_the_compilers_own_colors_lead_to_its_own_mapping(tmp_path: Path) -> None:
    program = assembled(unpacked(KERNELS_TPU7X, tmp_path), "tpu7x")
    production = program.production
    assert production is not None
    decoder, judge = Decoder(program), make_judge(program, "msa")
    mapping = decoder.decode()
    assert np.array_equal(mapping.access_fast, production.access_fast)
    assert judge.judge(mapping) == pytest.approx(judge.judge(production), rel=1e-9)
    free = decoder.decode(colors=np.full(program.num_accesses, FREE, np.int8))
    assert not np.array_equal(free.access_fast, production.access_fast)
    assert np.array_equal(decoder.decode(colors=own_colors(program)).access_fast, mapping.access_fast)


def test_a_use_in_hbm_has_a_value_written_back() -> None:
    program = chain()
    mapping = colored(program, {("a", "x"): FAST, ("d", "x"): HBM})
    assert copies(program, mapping, "x", WRITE_BACK)


def test_a_use_in_fast_memory_is_prefetched_at_the_last_moment_if_there_is_none_before() -> None:
    program = make_program(
        [("a", 1e-6, ["p"], ["x"]), ("b", 1e-6, ["q", "x"], ["o"])],
        {"p": INPUT, "q": {"size": 96, "input": True}, "x": 40, "o": {"size": 8, "output": True}},
    )
    options = Options(cross_program=0)
    free = Decoder(program, None, options).decode(colors=np.full(program.num_accesses, FREE, np.int8))
    assert not free.access_fast[2]
    mapping = colored(program, {("b", "q"): FAST}, options)
    assert copies(program, mapping, "q", PREFETCH) == [[0, 1]]


def test_a_result_in_fast_memory_leaves_at_once_where_it_cannot_stay() -> None:
    program = make_program(
        [
            ("a", 1.0, ["p"], ["x"]),
            ("b", 1.0, ["big"], ["y"]),
            ("c", 1.0, ["x", "y"], ["o"]),
        ],
        {
            "p": INPUT,
            "big": {"size": 96, "input": True},
            "x": 40,
            "y": 8,
            "o": {"size": 8, "output": True},
        },
    )
    mapping = colored(program, {("a", "x"): FAST, ("b", "big"): FAST})
    assert copies(program, mapping, "x", WRITE_BACK)


def test_memory_for_a_color_is_kept_free_of_what_comes_before_it() -> None:
    program = make_program(
        [("a", 1.0, ["p"], ["x"]), ("b", 1.0, ["x", "q"], ["y"]), ("c", 1.0, ["x", "y"], ["o"])],
        {"p": INPUT, "q": INPUT, "x": 96, "y": 40, "o": {"size": 8, "output": True}},
    )
    first = {"priority": np.array([0 if name == "x" else 1 for name in program.buffer_names])}
    free = Decoder(program, None, COUNTING).decode(colors=np.full(program.num_accesses, FREE, np.int8), **first)
    of_x = program.access_buffer == program.buffer_names.index("x")
    assert free.access_fast[of_x].all()
    mapping = colored(program, {("b", "y"): FAST, ("c", "y"): FAST}, COUNTING, **first)
    assert not mapping.access_fast[of_x].all()


def test_copies_in_one_gap_that_a_mapping_cannot_say_leave_a_buffer_in_hbm() -> None:
    program = chain()
    last = np.array([1 if name == "y" else 0 for name in program.buffer_names])
    colors = np.full(program.num_accesses, FREE, np.int8)
    for instruction, buffer in (("b", "y"), ("c", "y"), ("b", "x")):
        t, b = program.instruction_names.index(instruction), program.buffer_names.index(buffer)
        colors[(program.access_instruction == t) & (program.access_buffer == b)] = FAST
    mapping = Decoder(program).decode(priority=last, colors=colors)
    assert verify(program, program.target, mapping) == []


def test_what_does_not_fit_loses_its_color() -> None:
    program = make_program(
        [("a", 1.0, ["p", "q"], ["o"])],
        {"p": {"size": 96, "input": True}, "q": {"size": 96, "input": True}, "o": {"size": 8, "output": True}},
    )
    mapping = Decoder(program).decode(colors=np.array([FAST, FAST, FREE], np.int8))
    assert verify(program, program.target, mapping) == []


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_colors_lead_to_a_legal_mapping(data: st.DataObject) -> None:
    program = data.draw(programs(loops=False))
    draw = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    colors = draw.choice([FREE, FREE, HBM, FAST], program.num_accesses).astype(np.int8)
    colors[~program.access_allowed] = FREE
    inputs = program.definition[program.access_buffer] < 0
    colors[(program.access_kind == RESULT) & inputs] = FREE
    mapping = Decoder(program).decode(colors=colors)
    assert verify(program, program.target, mapping) == []
