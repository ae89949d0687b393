"""Walks over plans: a walk from kept states is a walk from the beginning, restored or not."""

import json

import numpy as np
import pytest

from mallocmuzero.env.game.plan import random_plan
from mallocmuzero.env.workloads import load
from mallocmuzero.solvers.anneal import SEARCH
from mallocmuzero.solvers.common.budget import Budget
from mallocmuzero.solvers.common.follow import hints_of_mapping, plan_of_mapping
from mallocmuzero.solvers.common.task import Task
from mallocmuzero.solvers.common.walk import Walk
from mallocmuzero.solvers.common.walk_changes import PLAIN, Search
from mallocmuzero.solvers.starts.plans import good_starts

PROGRAM = "resnet50-b32-v4"


@pytest.mark.parametrize(("search", "msa_share"), [(PLAIN, 0.5), (SEARCH, 0.5), (SEARCH, 0.15)])
def test_a_walk_from_kept_states_is_a_walk_from_the_beginning(search: Search, msa_share: float) -> None:
    task = Task(load(PROGRAM), None, "robust", Budget(None, 10_000), 1)
    task.use(task.tables_with(msa_share))
    walk = Walk(task, random_plan(task.tables, task.generator), search)
    for temperature in (1e-4, 1e-5, 0.0):
        walk.step(150, temperature)
        current, best = walk.current_s, task.best_s
        assert task.play(walk.plan) == pytest.approx(current, rel=1e-12)
        assert task.best_plan is not None
        assert task.play(task.best_plan) == pytest.approx(best, rel=1e-12)
    before = walk.plan.copy()
    assert (walk.differences() > 0).all()
    np.testing.assert_array_equal(walk.plan, before)


def test_a_walk_by_hinted_times_is_a_walk_from_the_beginning() -> None:
    # A preference to wait may change when a prefetch runs, and with it what fits later, but not the move.
    program = load("alexnet-train-b128")
    task = Task(program, None, "robust", Budget(None, 10_000), 0)
    task.use(task.tables_following(task.msa_shares[0], hints_of_mapping(program, program.production)))
    walk = Walk(task, plan_of_mapping(program, program.production), SEARCH)
    for _ in range(400):
        walk.step(1, 1e-9)
        assert task.play(walk.plan) == pytest.approx(walk.current_s, rel=1e-12)


def test_a_restored_walk_goes_on_as_before() -> None:
    task = Task(load(PROGRAM), None, "msa", Budget(None, 10_000), 1)
    walk = Walk(task, random_plan(task.tables, task.generator), SEARCH)
    walk.step(100, 1e-5)
    state, chance = walk.state(), task.generator.bit_generator.state
    walk.step(100, 1e-5)
    other = Walk(task, random_plan(task.tables, task.generator), SEARCH)
    other.restore(json.loads(json.dumps(state)))
    task.generator.bit_generator.state = chance
    other.step(100, 1e-5)
    assert (other.current_s, other.best_s) == (walk.current_s, walk.best_s)
    np.testing.assert_array_equal(other.plan, walk.plan)


def test_a_climb_never_gets_worse_and_annealing_beats_its_start() -> None:
    task = Task(load(PROGRAM), None, "msa", Budget(None, 100_000), 0)
    start = good_starts(task, 0.0)[0]
    walk = Walk(task, start)
    reached = [walk.current_s]
    for _ in range(10):
        walk.step(100, 0.0)
        reached.append(walk.current_s)
    assert reached == sorted(reached, reverse=True)
    assert reached[-1] < reached[0]
    production_s = task.game.judge.production_s
    assert production_s is not None
    assert reached[-1] < 0.95 * production_s  # greedy alone reaches 0.94
