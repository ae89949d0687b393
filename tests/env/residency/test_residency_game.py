"""Rounds of the residency game: rewards, legal moves, and the end."""

import numpy as np
import pytest

from mallocmuzero.env.game.moves import COPY
from mallocmuzero.env.residency.game import CANDIDATE_FEATURES, Round, Sizes, gain
from mallocmuzero.env.residency.observation import STAY_FEATURES
from mallocmuzero.env.residency.position import Position
from mallocmuzero.env.residency.seat import Seat, play_turns
from mallocmuzero.env.workloads import load
from mallocmuzero.solvers.common.budget import Budget
from mallocmuzero.solvers.common.task import Task

SIZES = Sizes(8)


def begin(candidates: int = 8, moves: int = 3) -> tuple[Task, Round]:
    task = Task(load("alexnet-train-b128"), None, "msa", Budget(None, 10**9), 0)
    position = Position(task.plan_game, np.full(len(task.tables.access), COPY, np.int8))
    drawn = np.random.default_rng(3).permutation(len(position.changes.stay))[:candidates]
    return task, Round(Seat(position, SIZES.candidates), drawn, moves)


def test_rewards_are_the_outcomes_that_were_told_and_sum_to_the_gain() -> None:
    task, game = begin()
    begin_s = game.seat.position.seconds
    rewards = []
    while not game.done:
        legal = np.flatnonzero(game.legal[:-1])
        told = game.outcomes.copy()
        rewards.append(game.play(int(legal[0])))
        assert rewards[-1] == pytest.approx(told[legal[0]], abs=1e-12)
    assert sum(rewards) == pytest.approx(game.gain)
    assert game.gain == pytest.approx(gain(begin_s, task.play(game.seat.position.plan)))
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


def test_turns_in_one_call_find_what_rounds_find_alone() -> None:
    games = [begin(candidates=count)[1] for count in (3, 8)]
    alone = [begin(candidates=count)[1] for count in (3, 8)]
    addresses = np.array([game.seat.turn.address for game in games], np.int64)
    seen, wanted = np.zeros((2, SIZES.observation), np.float32)
    while not games[0].done:
        for game, other in zip(games, alone, strict=True):
            game.observe(seen)
            other.observe(wanted)
            np.testing.assert_array_equal(seen, wanted)
            game.choose(int(np.flatnonzero(game.legal)[0]))
        play_turns(addresses, 0, 2)
        for game, other in zip(games, alone, strict=True):
            reward = other.play(int(np.flatnonzero(other.legal)[0]))
            assert game.take() == reward
            np.testing.assert_array_equal(game.outcomes, other.outcomes)


def test_the_stays_of_candidates_are_described_as_all_stays_are() -> None:
    _, game = begin(moves=8)
    for _ in range(3):
        game.play(int(np.flatnonzero(game.legal)[0]))
        left = np.flatnonzero(game.seat.turn.candidates >= 0)
        rows = game.seat.turn.rows[left, 1 : 1 + STAY_FEATURES].copy()
        stays = game.seat.position.changes.stay[game.candidates[left]]
        np.testing.assert_array_equal(rows, game.seat.observer.observe()[stays])
