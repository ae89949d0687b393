"""Loops in our copy of XLA's algorithm: what a pass prefetches, frees and returns."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from compiler_cases import SMALL, unpacked
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import make_program, programs

from mallocmuzero.env.capture.assemble import Assembly
from mallocmuzero.env.program.kernel_colors import FAST, FREE, HBM
from mallocmuzero.env.program.mapping import PREFETCH, WRITE_BACK, Mapping
from mallocmuzero.env.program.program import Program
from mallocmuzero.env.program.target import GENERATIONS
from mallocmuzero.env.verifier.verify import verify
from mallocmuzero.env.workloads import load
from mallocmuzero.solvers.xla.decoder import Decoder
from mallocmuzero.solvers.xla.options import Options, production
from mallocmuzero.solvers.xla.typical_size import fitted_typical_bytes

# As in `test_decoder.py`.
COUNTING = Options(typical_bytes=48, min_overlap=0.5, preferred_overlap=4.0, max_overlap=2.0, cross_program=0)


def alike(program: Program, mapping: Mapping) -> float:
    """Returns the share of all bytes, passes counted, that a mapping and XLA's serve from the same memory."""
    assert program.production is not None
    moved = program.access_bytes * program.weight[program.access_instruction]
    return float(moved[mapping.access_fast == program.production.access_fast].sum() / moved.sum())


def decoded(program: Program) -> Mapping:
    size = fitted_typical_bytes(program, program.target)
    options = replace(production(program.target), typical_bytes=size)
    mapping = Decoder(program, None, options).decode()
    assert verify(program, program.target, mapping) == []
    return mapping


def copies(program: Program, mapping: Mapping, buffer: str, direction: int) -> list[list[int]]:
    rows = mapping.copies
    mine = rows[(rows[:, 0] == program.buffer_names.index(buffer)) & (rows[:, 1] == direction)]
    found: list[list[int]] = mine[:, 2:4].tolist()
    return found


@pytest.mark.parametrize("name", ["conformer-scan-train-b4-v6e", "conformer-scan-remat-train-b8-v5p"])
def test_xlas_mapping_of_scanned_layers_comes_out(name: str) -> None:
    program = load(name)
    assert alike(program, decoded(program)) > 0.997


# The first needs slices of what a pass brings back, the second the order of what loops carry.
@pytest.mark.parametrize("name", ["mixer-scan-remat-train-b32-v6e", "gru-train-b32-s64"])
def test_xlas_mapping_of_passes_comes_out(name: str) -> None:
    program = load(name)
    assert alike(program, decoded(program)) > 0.998


def test_sums_that_passes_add_to_leave_and_come_back(tmp_path: Path) -> None:
    folder = unpacked(SMALL.parent / "loop-end" / "sums-v6e.tar.xz", tmp_path)
    program = Assembly(folder, GENERATIONS["v6e"], "sums", "sums").program()
    mapping = decoded(program)
    assert alike(program, mapping) > 0.9
    (first,), (last,) = program.loop_first, program.loop_last
    inside = (mapping.copies[:, 2] >= first) & (mapping.copies[:, 3] <= last)
    assert {PREFETCH, WRITE_BACK} <= set(mapping.copies[inside, 1].tolist())


def test_an_input_too_large_to_stay_comes_in_every_pass() -> None:
    program = make_program(
        [
            ("a", 1.0, ["p"], ["x"]),
            ("b", 1.0, ["x"], ["y"]),
            ("c", 1.0, ["y"], ["z"]),
            ("d", 1.0, ["z", "w"], ["o"]),
            ("e", 1.0, ["big"], ["t"]),
            ("f", 1.0, ["o", "t"], ["r"]),
        ],
        {
            "p": {"size": 8, "input": True},
            "w": {"size": 40, "input": True},
            "big": {"size": 96, "input": True},
            **dict.fromkeys("xyzt", 8),
            "o": {"size": 8, "output": True},
            "r": {"size": 8, "output": True},
        },
        loops=[(1, 4, 8)],
    )
    mapping = Decoder(program, None, COUNTING).decode(
        priority=np.array([0 if name == "big" else 1 for name in program.buffer_names])
    )
    assert verify(program, program.target, mapping) == []
    for buffer in ("w", "big"):
        for start, end in copies(program, mapping, buffer, PREFETCH):
            assert (start < 1) == (end <= 1)  # within the loop, or before it


def test_what_lives_in_a_body_outlives_the_inner_loops() -> None:
    # `x` is made by the outer body and read by the inner loop, in each of whose passes it has to be there.
    program = make_program(
        [
            ("a", 1.0, [], ["p"]),
            ("b", 1.0, ["p"], ["x"]),
            ("c", 1.0, ["x"], ["y"]),
            ("d", 1.0, ["y"], ["z"]),
            ("e", 1.0, ["p"], ["r"]),
        ],
        {"p": 8, "x": 40, "y": 8, "z": 8, "r": {"size": 8, "output": True}},
        loops=[(1, 3, 8), (2, 3, 4)],
    )
    roughly = Decoder(program, None, COUNTING).decode_roughly()
    assert verify(program, program.target, roughly) == []
    x = program.buffer_names.index("x")
    assert roughly.residencies[roughly.residencies[:, 0] == x, 1:3].tolist() == [[1, 3]]


@pytest.mark.parametrize("name", ["retnet-scan-b8-s1024", "t5-scan-remat-train-b16-v4-2x2x2"])
def test_a_repair_changes_no_access(name: str) -> None:
    decoder = Decoder(load(name))
    roughly = decoder.decode_roughly()
    assert np.array_equal(roughly.access_fast, decoder.repaired(roughly).access_fast)
    assert alike(decoder.program, roughly) > 0.999


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_every_mapping_is_legal(data: st.DataObject) -> None:
    program = data.draw(programs())
    size = program.num_accesses
    colors = np.array(
        data.draw(st.lists(st.sampled_from((FREE, FREE, HBM, FAST)), min_size=size, max_size=size)), np.int8
    )
    colors[~program.access_allowed] = FREE
    priority = np.array(
        data.draw(st.lists(st.integers(0, 3), min_size=program.num_buffers, max_size=program.num_buffers))
    )
    decoder = Decoder(program)
    for how in ({}, {"priority": priority}, {"colors": colors}):
        assert verify(program, program.target, decoder.decode(**how)) == []
