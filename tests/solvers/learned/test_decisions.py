"""Decisions along a line are what a player of the game observes; odds are ratios of the policy's probabilities."""

import jax
import numpy as np
import pytest
from guided_cases import NETWORK, fresh_params, make_task, plan_of

from mallocmuzero.solvers.learned.decisions import decisions_along
from mallocmuzero.solvers.learned.proposer import Proposer


def test_preferences_lead_to_their_moves() -> None:
    task = make_task()
    plan = task.generator.integers(0, 3, len(task.tables.access)).astype(np.int8)
    decisions = decisions_along(task, plan)
    for row in range(0, len(decisions.access), 7):
        for move in np.flatnonzero(decisions.legal[row]):
            other = plan.copy()
            other[decisions.access[row]] = decisions.preference[row, move]
            again = decisions_along(task, other)
            same = int(np.flatnonzero(again.access == decisions.access[row])[0])
            assert again.move[same] == move


def test_decisions_are_observed_in_order_and_have_a_choice() -> None:
    task = make_task()
    plan = task.generator.integers(0, 3, len(task.tables.access)).astype(np.int8)
    decisions = decisions_along(task, plan)
    assert len(decisions.access) > 20
    assert (np.diff(decisions.access) > 0).all()
    assert decisions.legal[np.arange(len(decisions.move)), decisions.move].all()
    assert (decisions.legal.sum(axis=1) > 1).all()
    assert np.isfinite(decisions.observation).all()
    assert (np.abs(decisions.observation).sum(axis=1) > 0).all()


def test_odds_are_ratios_of_probabilities() -> None:
    params = jax.tree.map(
        lambda leaf: leaf + 0.05 * jax.random.normal(jax.random.PRNGKey(5), leaf.shape), fresh_params()
    )
    task = make_task()
    decisions = decisions_along(task, plan_of(task))
    odds = Proposer(NETWORK, params).odds(decisions)
    logits = np.asarray(NETWORK.initial_inference(params, decisions.observation).policy_logits)
    for row in range(len(decisions.access)):
        for move in range(3):
            if move == decisions.move[row] or not decisions.legal[row, move]:
                assert odds[row, move] == 0.0
            else:
                expected = np.exp(logits[row, move] - logits[row, decisions.move[row]])
                assert odds[row, move] == pytest.approx(expected, rel=1e-3)
