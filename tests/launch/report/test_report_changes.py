"""The worth of a change is what the simulator says of the mapping with that one change put back."""

import numpy as np
import pytest

from mallocmuzero.env import workloads
from mallocmuzero.env.game import kernels
from mallocmuzero.env.game.game import MallocGame
from mallocmuzero.env.game.moves import DROP
from mallocmuzero.env.game.plan import TO_THE_END, Plan, play_until
from mallocmuzero.env.physics.objective import make_judge
from mallocmuzero.env.program.mapping import Mapping
from mallocmuzero.env.program.program import Program
from mallocmuzero.launch.report.changes import compare, find_differences
from mallocmuzero.solvers.common.follow import PATIENCE, follow_best, hints_of_mapping, preferences_of_mapping

NAME = "resnet50-b32-v4"


def following(program: Program, mapping: Mapping) -> MallocGame:
    """A game by the rules that follow a mapping."""
    hints = hints_of_mapping(program, mapping)
    game = MallocGame(program, None, "msa", trivial_share=0.0, patience=PATIENCE, hints=hints)
    follow_best(game, mapping)
    return game


def played(game: MallocGame, plan: Plan) -> Mapping:
    """The mapping of the game that a plan plays."""
    kernels.reset(game.tables, game.state)
    play_until(game.tables, game.state, game.options, plan, np.zeros(len(plan), np.int8), TO_THE_END)
    game.take_over()
    return game.mapping()


def test_a_mapping_does_not_differ_from_itself() -> None:
    program = workloads.load(NAME)
    assert program.production is not None
    assert find_differences(program, program.production, program.production) == []
    found = compare(program, program.production, program.production, "robust", 10)
    assert (found.differences, found.worths) == ([], [])
    assert found.replayed_s == pytest.approx(found.mapping_s, rel=0.01)


def test_the_worth_of_one_stay_is_what_it_saves() -> None:
    program = workloads.load(NAME)
    assert program.production is not None
    plan, game = preferences_of_mapping(program, program.production), following(program, program.production)
    replayed = played(game, plan)
    judge = make_judge(program, "msa")
    tried = 0
    for buffer in np.unique(program.access_buffer[replayed.access_fast])[:60]:
        without = plan.copy()
        without[program.access_buffer == buffer] = DROP
        other = played(game, without)
        differences = find_differences(program, program.production, other)
        if len(differences) != 1:
            continue
        (worth,) = compare(program, program.production, other, "msa", 5).worths
        assert differences[0].buffer == buffer
        assert differences[0].fast
        saved_s = judge.judge(other) - judge.judge(replayed)  # by the simulator, from the mappings alone
        assert worth.share == pytest.approx(saved_s / judge.judge(other), rel=1e-6, abs=1e-9)
        assert worth.model_s["msa"] == pytest.approx(saved_s, rel=1e-6, abs=1e-12)
        tried += saved_s > 0
    assert tried >= 3


def test_differences_are_whole_and_apart() -> None:
    program = workloads.load(NAME)
    assert program.production is not None
    others = [variant.mapping for variant in program.variants if variant.mapping is not None]
    other = others[0]
    found = find_differences(program, program.production, other)
    assert found
    accesses = np.concatenate([difference.accesses for difference in found])
    differing = np.flatnonzero(program.production.access_fast != other.access_fast)
    assert sorted(accesses.tolist()) == differing.tolist()
    for difference in found:
        assert set(program.access_buffer[difference.accesses].tolist()) == {difference.buffer}
        assert (program.production.access_fast[difference.accesses] == difference.fast).all()
