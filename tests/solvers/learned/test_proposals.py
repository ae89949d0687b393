"""Proposals: the highest scores are tried first, nothing gets worse, scores are renewed now and then."""

import numpy as np
from guided_cases import SCORE, make_task, plan_of
from numpy.typing import NDArray

from mallocmuzero.env.game.moves import COPY
from mallocmuzero.env.residency.position import Position
from mallocmuzero.solvers.common.task import Task
from mallocmuzero.solvers.learned.config import ProposalConfig
from mallocmuzero.solvers.learned.proposals import Proposals
from mallocmuzero.solvers.learned.score import Score

CONFIG = ProposalConfig(games_per_score=64)


def proposals(task: Task, score: Score = SCORE, config: ProposalConfig = CONFIG) -> Proposals:
    return Proposals(task, Position(task.plan_game, plan_of(task, COPY)), score, config)


def test_it_never_gets_worse_and_its_best_replays() -> None:
    task = make_task(10_000, "alexnet-train-b128")
    made = proposals(task)
    reached = [made.position.seconds]
    for _ in range(20):
        made.step(20)
        reached.append(made.position.seconds)
    assert reached == sorted(reached, reverse=True)
    assert reached[-1] < reached[0]
    assert task.best_s == reached[-1]
    assert task.best_plan is not None
    assert task.play(task.best_plan) == reached[-1]


def test_at_a_temperature_the_best_is_kept_apart() -> None:
    task = make_task(10_000, "alexnet-train-b128")
    made = proposals(task)
    for _ in range(20):
        made.step(20, 1e-4)
    assert made.position.best_seconds == task.best_s <= made.position.seconds
    assert task.play(made.position.best_plan) == task.best_s


def test_a_change_that_gains_is_found_at_once_where_the_score_knows_it() -> None:
    task = make_task(10_000, "alexnet-train-b128")
    every = Position(task.plan_game, plan_of(task, COPY))
    outcomes = every.outcomes(np.arange(len(every.changes.stay)))
    best = int(np.nanargmin(outcomes))
    wanted = np.array([every.changes.stay[best], every.changes.placement[best]])

    def knows(rows: NDArray[np.float32], stay: NDArray[np.int64], placement: NDArray[np.int64]) -> NDArray[np.float32]:
        return 100.0 * ((stay == wanted[0]) & (placement == wanted[1])).astype(np.float32)

    made = proposals(task, knows)
    made.step(1)
    assert made.position.seconds == outcomes[best] < every.seconds


def test_where_scores_are_equal_late_changes_are_tried_more_often_by_their_cost() -> None:
    def equal(rows: NDArray[np.float32], stay: NDArray[np.int64], placement: NDArray[np.int64]) -> NDArray[np.float32]:
        return np.zeros(len(stay), np.float32)

    def mean_place(weight: float) -> float:
        task, places = make_task(10_000, "alexnet-train-b128"), []
        made = proposals(task, equal, ProposalConfig(cost_weight=weight))
        changes = made.position.changes
        made._look()
        for _ in range(20):
            drawn = made._draw(32)
            places += list(changes.member[changes.first[changes.stay[drawn]]] / len(made.position.plan))
        return float(np.mean(places))

    assert mean_place(0.0) + 0.1 < mean_place(1.0) < mean_place(3.0)


def test_scores_are_renewed_only_now_and_then() -> None:
    task, scored = make_task(10_000, "alexnet-train-b128"), 0

    def counts(rows: NDArray[np.float32], stay: NDArray[np.int64], placement: NDArray[np.int64]) -> NDArray[np.float32]:
        nonlocal scored
        scored += 1
        return SCORE(rows, stay, placement)

    made, games = proposals(task, counts, ProposalConfig(games_per_score=100)), 0
    while games < 1000:
        games += made.step(50, 1e-6)
    assert 5 <= scored <= 15


def test_it_ends_where_nothing_can_be_tried() -> None:
    task = make_task(10_000, "tiny")
    made = proposals(task, lambda rows, stay, placement: np.full(len(stay), -1e12, np.float32))
    made.play(300)
    assert task.evaluations >= 300
