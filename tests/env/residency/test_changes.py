"""Stays and changes: what is listed, and what a change does to a plan and to a game."""

import numpy as np
import pytest

from mallocmuzero.env.game.moves import COPY, DROP
from mallocmuzero.env.game.plan import random_plan
from mallocmuzero.env.program.program import OPERAND
from mallocmuzero.env.residency.changes import CROSS_PROGRAM, HBM, KINDS, list_changes
from mallocmuzero.env.residency.position import Position
from mallocmuzero.env.residency.stays import CUTS, make_stays
from mallocmuzero.env.workloads import load
from mallocmuzero.solvers.common.budget import Budget
from mallocmuzero.solvers.common.task import Task

NAMES = ["tiny", "alexnet-train-b128", "lstm-b128-s64-v4"]


def make_task(name: str) -> Task:
    return Task(load(name), None, "msa", Budget(None, 10**9), 0)


def members(changes: object, stay: int) -> list[int]:
    first, count = int(changes.first[stay]), int(changes.count[stay])  # type: ignore[attr-defined]
    return list(changes.member[first : first + count].tolist())  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", NAMES)
def test_stays_are_those_of_every_cut_and_every_access_each_once(name: str) -> None:
    tables = make_task(name).tables
    changes = list_changes(tables)
    listed = [tuple(members(changes, stay)) for stay in range(len(changes.first))]
    assert len(set(listed)) == len(listed)
    expected = {(access,) for access in set(changes.member.tolist())}
    for cut in CUTS:
        of_access = make_stays(tables, cut).of_access
        expected |= {tuple(np.flatnonzero(of_access == stay).tolist()) for stay in range(of_access.max() + 1)}
    assert set(listed) == expected
    assert set(changes.kind.tolist()) <= set(range(KINDS))


@pytest.mark.parametrize("name", NAMES)
def test_outcomes_are_those_of_whole_games_of_the_changed_plans(name: str) -> None:
    task = make_task(name)
    plan = random_plan(task.tables, np.random.default_rng(1))
    position = Position(task.plan_game, plan)
    changes = position.changes
    draw = np.random.default_rng(2)
    numbers = draw.integers(0, len(changes.stay), 60)
    outcomes = position.outcomes(numbers)
    for number, outcome in zip(numbers.tolist(), outcomes.tolist(), strict=True):
        position.start(plan)
        before_s = position.seconds
        position.make(number)
        after_s = task.play(position.plan)
        assert after_s == (before_s if np.isnan(outcome) else outcome)
        touched = set(members(changes, int(changes.stay[number])))
        assert set(np.flatnonzero(position.plan != plan).tolist()) <= touched
    position.start(plan)
    np.testing.assert_array_equal(position.outcomes(numbers), outcomes)


def test_a_stay_put_into_hbm_is_dropped_everywhere() -> None:
    task = make_task("alexnet-train-b128")
    position = Position(task.plan_game, np.full(len(task.tables.access), COPY, np.int8))
    changes = position.changes
    number = int(np.flatnonzero(changes.placement == HBM)[0])
    position.make(number)
    assert (position.plan[members(changes, int(changes.stay[number]))] == DROP).all()


def test_only_constants_are_offered_a_prefetch_across_programs() -> None:
    tables = make_task("resnet50-b32-v4").tables
    changes = list_changes(tables)
    crossing = changes.stay[changes.placement == CROSS_PROGRAM]
    assert len(crossing)
    for stay in crossing.tolist():
        accesses = members(changes, stay)
        assert tables.buffer["is_input"][tables.access["buffer"][accesses]].all()
        assert (tables.access["kind"][accesses] == OPERAND).all()


def test_a_climb_keeps_what_does_no_harm_and_says_what_it_tried() -> None:
    task = make_task("alexnet-train-b128")
    position = Position(task.plan_game, np.full(len(task.tables.access), COPY, np.int8))
    numbers = np.random.default_rng(0).permutation(len(position.changes.stay))
    before_s, tried = position.seconds, np.zeros(len(numbers))
    games = position.climb(numbers, tried)
    assert games == np.count_nonzero(~np.isnan(tried))
    assert position.seconds <= before_s
    assert position.seconds == np.min(tried[np.isfinite(tried)], initial=before_s)
    assert task.play(position.plan) == position.seconds
