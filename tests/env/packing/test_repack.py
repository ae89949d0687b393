"""Repacking: the residencies of real and random mappings get other offsets that the verifier accepts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import TARGET, make_mapping, make_program, programs
from scanned_cases import load_scanned

from mallocmuzero.env.game.game import MallocGame
from mallocmuzero.env.packing.repack import groups, packing_of, repack
from mallocmuzero.env.physics.simulator import simulate
from mallocmuzero.env.program.mapping import CROSS_PROGRAM, Mapping
from mallocmuzero.env.program.program import Program
from mallocmuzero.env.verifier.verify import verify
from mallocmuzero.env.workloads import load


def without_offsets(mapping: Mapping, program: Program) -> Mapping:
    """All that belongs together at an offset of its own, far outside fast memory."""
    residencies = mapping.residencies.copy()
    residencies[:, 3] = (groups(mapping, program) + 10) * 2**40
    return Mapping(mapping.program_sha256, mapping.access_fast, residencies, mapping.copies)


@settings(max_examples=40, deadline=None)
@given(programs(), st.randoms(use_true_random=False))
def test_games_are_repacked(program, random) -> None:
    game = MallocGame(program, trivial_share=0.0)
    while not game.done:
        game.step(random.choice(np.flatnonzero(game.legal).tolist()))
    mapping = game.mapping()
    repacked = repack(program, without_offsets(mapping, program), seconds=60)
    assert repacked.mapping is not None, repacked.reason  # the game's own offsets are a solution
    assert verify(program, program.target, repacked.mapping) == []
    assert simulate(program, program.target, repacked.mapping).latency_s == game.latency_s


@pytest.mark.parametrize("name", ["tiny", "resnet50-b128", "gpt2-b4-s512", "bert-train-b8"])
def test_production_is_repacked(name: str) -> None:
    program = load(name)
    assert program.production is not None
    repacked = repack(program, without_offsets(program.production, program), seconds=None, nodes=20_000)
    assert repacked.mapping is not None, repacked.reason
    assert verify(program, program.target, repacked.mapping) == []
    before = simulate(program, program.target, program.production).latency_s
    assert simulate(program, program.target, repacked.mapping).latency_s == before


@pytest.mark.parametrize("name", ["vit-train-v5e", "mixer-train-v5e", "encdec-train-v5e"])
def test_what_a_loop_gives_up_and_fetches_again_keeps_one_offset(name: str) -> None:
    program = load_scanned(name)
    production = program.production
    assert production is not None
    found: dict[tuple[int, int, int], int] = {}
    for group, row in zip(groups(production, program).tolist(), production.residencies.tolist(), strict=True):
        for loop, (first, last) in enumerate(zip(program.loop_first, program.loop_last, strict=True)):
            if any(row[1] <= border <= row[2] for border in (first, last)):
                assert found.setdefault((loop, row[0], row[3]), group) == group
    repacked = repack(program, production, seconds=None, nodes=20_000)
    assert "not legal" not in repacked.reason


def test_both_ends_of_a_cross_program_prefetch_keep_one_offset() -> None:
    program = make_program(
        [("a", 0.0, ["x"], ["y"]), ("b", 0.0, ["y"], ["z"]), ("c", 0.0, ["z"], ["w"])],
        {"x": {"size": 32, "input": True}, "y": 96, "z": 96, "w": {"size": 8, "output": True}},
    )
    mapping = make_mapping(
        program,
        [("a", "x"), ("b", "y"), ("a", "y")],
        [("x", 0, 0, 96), ("y", 0, 1, 0), ("x", 2, 2, 96)],
        [
            {"buffer": "x", "start": -1, "end": 0, "direction": CROSS_PROGRAM},
            {"buffer": "x", "start": 1, "end": 3},
        ],
    )
    assert verify(program, TARGET, mapping) == []
    group = groups(mapping)
    assert group[0] == group[2] != group[1]
    repacked = repack(program, without_offsets(mapping, program))
    assert repacked.mapping is not None, repacked.reason
    assert repacked.mapping.residencies[0, 3] == repacked.mapping.residencies[2, 3]


def test_reserved_bytes_are_left_alone() -> None:
    program = make_program(
        [("a", 0.0, ["x"], ["y"]), ("b", 0.0, ["y"], ["z"])],
        {"x": {"size": 32, "input": True}, "y": 64, "z": {"size": 8, "output": True}},
        reserved={"b": 64},
    )
    mapping = make_mapping(program, [("a", "y"), ("b", "y")], [("y", 0, 1, 0)])
    assert verify(program, TARGET, mapping) != []
    repacked = repack(program, mapping)
    assert repacked.mapping is not None, repacked.reason
    assert repacked.mapping.residencies[0, 3] == 64


def test_what_does_not_fit_is_said() -> None:
    program = make_program(
        [("a", 0.0, ["x"], ["y"]), ("b", 0.0, ["y"], ["z"])],
        {"x": {"size": 32, "input": True}, "y": 96, "z": {"size": 64, "output": True}},
    )
    mapping = make_mapping(program, [("a", "y"), ("b", "y")], [("y", 0, 1, 0), ("z", 1, 1, 0)])
    repacked = repack(program, mapping)
    assert repacked.mapping is None
    assert repacked.reason == "160 bytes are resident at once, of 128"
    illegal = make_mapping(program, [("b", "y")], [("y", 1, 1, 0)])
    assert "not legal at any offsets" in repack(program, illegal).reason


def test_slices_make_a_problem_that_does_not_say_all() -> None:
    program = make_program(
        [("a", 0.0, [], ["y"]), ("b", 0.0, ["x", "y"], ["z"])],
        {"x": {"size": 64, "input": True}, "y": 64, "z": {"size": 8, "output": True}},
    )
    sliced = make_mapping(program, [], [("x", 0, 1, 0, 0, 32), ("x", 1, 1, 0, 32, 64)])
    packing, exactly = packing_of(program, sliced, TARGET)
    assert packing.items == 1
    assert not exactly


def test_slices_take_their_own_room() -> None:
    # While only the lower half of x is there, y may lie where the upper half is going to.
    program = make_program(
        [("a", 0.0, [], ["y"]), ("b", 0.0, ["y"], ["z"]), ("c", 0.0, ["x", "z"], ["w"])],
        {"x": {"size": 96, "input": True}, "y": 64, "z": {"size": 32}, "w": {"size": 8, "output": True}},
    )
    mapping = make_mapping(
        program,
        [("a", "y"), ("b", "y"), ("b", "z"), ("c", "z"), ("c", "x")],
        [("y", 0, 1, 64), ("z", 1, 2, 0), ("x", 1, 2, 32, 0, 32), ("x", 2, 2, 32, 32, 96)],
        [
            {"buffer": "x", "start": 0, "end": 2, "low": 0, "high": 32},
            {"buffer": "x", "start": 1, "end": 2, "low": 32, "high": 96},
        ],
    )
    assert verify(program, TARGET, mapping) == []
    packing, exactly = packing_of(program, mapping, TARGET)
    assert not exactly
    assert packing.load > TARGET.fast_bytes  # whole, it would not fit
    repacked = repack(program, without_offsets(mapping, program))
    assert repacked.mapping is not None, repacked.reason
    assert repacked.packed is None
    assert verify(program, TARGET, repacked.mapping) == []
    too_much = make_mapping(
        program,
        [("a", "y"), ("b", "y"), ("c", "x")],
        [("y", 0, 2, 64), ("x", 1, 2, 32, 0, 32), ("x", 2, 2, 32, 32, 96)],
    )
    assert "by rules, the slices do not fit either" in repack(program, too_much, seconds=0.1).reason
