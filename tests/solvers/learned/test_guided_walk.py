"""The walk with proposals: one current game for both, in their shares, repeatable."""

from collections.abc import Callable

import numpy as np
from guided_cases import SCORE, make_task, plan_of

from mallocmuzero.env.game.moves import COPY
from mallocmuzero.solvers.common.task import Task
from mallocmuzero.solvers.learned.config import GuidedConfig
from mallocmuzero.solvers.learned.guided_walk import GuidedWalk
from mallocmuzero.solvers.learned.score import Score

CONFIG = GuidedConfig()


def walked(task: Task, temperature: float, config: GuidedConfig = CONFIG, score: Score | None = SCORE) -> GuidedWalk:
    walk = GuidedWalk(task, plan_of(task, COPY), score, config)
    for _ in range(12):
        walk.step(40, temperature)
    return walk


def test_both_move_one_game_whose_best_replays() -> None:
    task = make_task(10_000, "alexnet-train-b128")
    walk = walked(task, 1e-6)
    assert task.play(walk.best_plan) == walk.best_s == task.best_s
    assert task.play(walk.walk.plan) == walk.walk.current_s
    assert walk.walk.current_s >= walk.best_s


def test_without_a_temperature_nothing_gets_worse() -> None:
    task = make_task(10_000, "alexnet-train-b128")
    walk = walked(task, 0.0)
    assert walk.walk.current_s == walk.best_s


def test_equal_seeds_walk_equally() -> None:
    one, other = (walked(make_task(10_000, "alexnet-train-b128"), 1e-6) for _ in range(2))
    assert one.best_s == other.best_s
    assert np.array_equal(one.best_plan, other.best_plan)


def test_the_network_has_its_share_of_the_games() -> None:
    for share in (0.25, 0.75):
        task, proposed = make_task(100_000, "alexnet-train-b128"), 0
        walk = GuidedWalk(task, plan_of(task, COPY), SCORE, GuidedConfig(proposed_share=share))
        plain = walk.walk.step

        def counted(games: int, temperature: float, plain: Callable[[int, float], None] = plain) -> None:
            nonlocal proposed
            proposed += games
            plain(games, temperature)

        walk.walk.step = counted  # type: ignore[method-assign]
        before = task.evaluations
        walk.step(2000, 1e-6)
        assert abs(proposed / (task.evaluations - before) - (1.0 - share)) < 0.05


def test_without_a_score_or_a_share_it_is_the_plain_walk() -> None:
    plain = walked(make_task(10_000, "alexnet-train-b128"), 1e-6, score=None)
    none = walked(make_task(10_000, "alexnet-train-b128"), 1e-6, GuidedConfig(proposed_share=0.0))
    assert plain.best_s == none.best_s
    assert np.array_equal(plain.best_plan, none.best_plan)
