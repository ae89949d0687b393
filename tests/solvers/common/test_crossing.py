"""Crossing plans: what a plan takes from another makes it better, the game replays it, and the budget holds."""

import numpy as np
from guided_cases import make_task, plan_of

from mallocmuzero.env.game.moves import COPY, DROP
from mallocmuzero.solvers.anneal import SEARCH
from mallocmuzero.solvers.common.crossing import cross
from mallocmuzero.solvers.common.task import Task
from mallocmuzero.solvers.common.walk import Walk

PROGRAM = "alexnet-train-b128"


def two_halves(task: Task) -> tuple[Walk, Walk]:
    """Returns two climbs from opposite plans."""
    walks = Walk(task, plan_of(task, COPY), SEARCH), Walk(task, plan_of(task, DROP), SEARCH)
    for walk in walks:
        walk.step(400, 0.0)
    return walks


def test_a_plan_gets_better_by_parts_of_another_and_replays() -> None:
    task = make_task(10_000, PROGRAM)
    # Two plans that each know one half of what the better climb found.
    known = min(two_halves(task), key=lambda walk: walk.best_s).best_plan
    middle, plain = len(known) // 2, plan_of(task, DROP)
    one, other = plain.copy(), plain.copy()
    one[:middle], other[middle:] = known[:middle], known[middle:]
    before_s, before = task.play(one), one.copy()
    plan, seconds = cross(task, one, before_s, [other], 1.0)
    assert seconds < before_s
    assert task.play(plan) == seconds
    assert np.array_equal(one, before), "the plan that is given is left alone"
    assert np.all((plan == one) | (plan == other)), "it is made of the two plans and of nothing else"


def test_equal_plans_cost_nothing() -> None:
    task = make_task(10_000, PROGRAM)
    one, _ = two_halves(task)
    played = task.evaluations
    plan, seconds = cross(task, one.best_plan, one.best_s, [one.best_plan.copy()], 1.0)
    assert (plan is one.best_plan, seconds, task.evaluations) == (True, one.best_s, played)


def test_it_ends_with_its_share_of_the_budget() -> None:
    task = make_task(10_000, PROGRAM)
    one, other = two_halves(task)
    until = task.spent + 20 / 10_000
    cross(task, one.best_plan, one.best_s, [other.best_plan], until)
    assert until <= task.spent < until + 2 / 10_000
