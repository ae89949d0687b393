"""The climb by scores: it tries what is scored highest first, and never gets worse."""

import numpy as np
from guided_cases import SCORE, make_task, plan_of
from numpy.typing import NDArray

from mallocmuzero.env.game.moves import COPY
from mallocmuzero.solvers.learned.climb import Climb


def test_it_never_gets_worse_and_its_best_replays() -> None:
    task = make_task(10_000, "alexnet-train-b128")
    climb = Climb(task, plan_of(task, COPY), SCORE)
    reached = [climb.position.seconds]
    for _ in range(6):
        climb.step(20)
        reached.append(climb.position.seconds)
    assert reached == sorted(reached, reverse=True)
    assert reached[-1] < reached[0]
    assert task.best_s == reached[-1]
    assert task.best_plan is not None
    assert task.play(task.best_plan) == reached[-1]


def test_a_change_that_gains_is_found_at_once_where_the_score_knows_it() -> None:
    task = make_task(10_000, "alexnet-train-b128")
    plan = plan_of(task, COPY)
    every = Climb(task, plan, SCORE).position
    numbers = np.arange(len(every.changes.stay))
    best = int(np.nanargmin(every.outcomes(numbers)))
    wanted = np.array([every.changes.stay[best], every.changes.placement[best]])

    def knows(rows: NDArray[np.float32], stay: NDArray[np.int64], placement: NDArray[np.int64]) -> NDArray[np.float32]:
        return ((stay == wanted[0]) & (placement == wanted[1])).astype(np.float32)

    climb = Climb(task, plan, knows)
    gained = every.seconds - float(np.nanmin(every.outcomes(numbers)))
    climb.step(1)
    assert every.seconds - climb.position.seconds >= gained


def test_it_is_stuck_once_nothing_gains() -> None:
    task = make_task(100_000, "tiny")
    climb = Climb(task, plan_of(task, COPY), SCORE)
    for _ in range(200):
        climb.step(20)
    assert climb.stuck
