"""Rounds of the residency game: rewards, legal moves, and the end."""

import numpy as np
import pytest

from mallocmuzero.env.game.moves import COPY
from mallocmuzero.env.residency.game import CANDIDATE_FEATURES, Round, Sizes, gain
from mallocmuzero.env.residency.observation import Observer
from mallocmuzero.env.residency.position import Position
from mallocmuzero.env.workloads import load
from mallocmuzero.solvers.common.budget import Budget
from mallocmuzero.solvers.common.task import Task

SIZES = Sizes(8)


def begin(candidates: int = 8, moves: int = 3) -> tuple[Task, Round]:
    task = Task(load("alexnet-train-b128"), None, "msa", Budget(None, 10**9), 0)
    position = Position(task.plan_game, np.full(len(task.tables.access), COPY, np.int8))
    drawn = np.random.default_rng(3).permutation(len(position.changes.stay))[:candidates]
    return task, Round(position, Observer(position), drawn, SIZES, moves)


def test_rewards_are_the_outcomes_that_were_told_and_sum_to_the_gain() -> None:
    task, game = begin()
    begin_s = game.position.seconds
    rewards = []
    while not game.done:
        legal = np.flatnonzero(game.legal[:-1])
        told = game.outcomes.copy()
        rewards.append(game.play(int(legal[0])))
        assert rewards[-1] == pytest.approx(told[legal[0]], abs=1e-12)
    assert sum(rewards) == pytest.approx(game.gain)
    assert game.gain == pytest.approx(gain(begin_s, task.play(game.position.plan)))
    assert len(rewards) == 3


def test_a_move_is_made_once_and_stopping_gains_nothing() -> None:
    _, game = begin()
    action = int(np.flatnonzero(game.legal[:-1])[0])
    game.play(action)
    assert not game.legal[action]
    with pytest.raises(ValueError, match="not legal"):
        game.play(action)
    assert game.play(SIZES.actions - 1) == 0.0
    assert game.done


def test_the_observation_has_a_row_for_each_candidate_and_none_for_those_that_are_missing_or_made() -> None:
    _, game = begin(candidates=5)
    observation = np.full(SIZES.observation, np.nan, np.float32)
    game.observe(observation)
    rows = observation[:-2].reshape(8, CANDIDATE_FEATURES)
    np.testing.assert_array_equal(rows[:, 0], [1, 1, 1, 1, 1, 0, 0, 0])
    assert not rows[5:].any()
    np.testing.assert_array_equal(rows[:5, -5:].sum(axis=1), 1.0)
    assert not game.legal[5:8].any()
    action = int(np.flatnonzero(game.legal[:-1])[0])
    game.play(action)
    game.observe(observation)
    assert not observation[:-2].reshape(8, CANDIDATE_FEATURES)[action].any()
