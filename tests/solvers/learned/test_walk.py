"""A guided walk begins changes where the odds are high, tries proposals first, and learns from failed trials."""

import numpy as np
import pytest
from guided_cases import NETWORK, Contrary, Favouring, fresh_params, make_task, plan_of
from numpy.typing import NDArray

from mallocmuzero.solvers.anneal import SEARCH
from mallocmuzero.solvers.learned.decisions import Decisions, decisions_along
from mallocmuzero.solvers.learned.proposer import Proposer
from mallocmuzero.solvers.learned.walk import GuidedWalk


def test_changes_begin_where_the_odds_are_high() -> None:
    task = make_task()
    plan = plan_of(task)
    walk = GuidedWalk(task, plan, SEARCH, Favouring(1e9))
    annealing = walk.shares
    walk.query()
    place = list(task.free).index(decisions_along(task, plan).access[3])
    assert walk.shares.sum() == pytest.approx(1.0)
    assert np.argmax(walk.shares) == place
    assert (walk.shares >= 0.3 * annealing).all()  # annealing's own choices keep their part


def test_proposals_are_tried_and_kept_if_they_are_better() -> None:
    task = make_task()
    walk = GuidedWalk(task, plan_of(task, 2), SEARCH, Contrary())
    assert walk.try_proposals(10) == 0  # no query yet
    walk.query()
    before, alternatives = walk.current_s, walk.proposals
    decisions = decisions_along(task, walk.plan)
    assert alternatives == decisions.legal.sum() - len(decisions.access)
    played = task.evaluations
    assert walk.try_proposals(5) == 5
    assert walk.try_proposals(10_000) == alternatives - 5
    assert walk.try_proposals(10) == walk.proposals == 0
    assert task.evaluations == played + alternatives
    assert walk.current_s < before
    plan, current = walk.plan.copy(), walk.current_s
    assert task.play(plan) == pytest.approx(current, rel=1e-12)
    walk.step(200, 0.0)  # from the states that were kept
    assert task.play(walk.best_plan) == pytest.approx(walk.best_s, rel=1e-12)
    assert walk.best_s <= current


def test_failed_trials_count_against_a_decision() -> None:
    task = make_task()
    walk = GuidedWalk(task, plan_of(task), SEARCH, Favouring(20.0))
    annealing = walk.shares
    walk.step(5, 0.0)
    assert np.array_equal(walk.shares, annealing)  # no query yet
    walk.query()
    place = list(task.free).index(decisions_along(task, walk.plan).access[3])
    first = walk.shares[place]
    walk.step(100, 0.0)
    tried = walk.shares[place]
    assert tried < 0.5 * first
    walk.query()
    again = walk.shares[place]
    assert tried < again < first  # trials before a query count half


def test_the_policy_is_asked_about_the_decisions_with_most_at_stake() -> None:
    task = make_task()
    asked = []

    class Asked(Proposer):
        batch_size = 20

        def odds(self, decisions: Decisions) -> NDArray[np.float64]:
            asked.append(decisions)
            return np.zeros((len(decisions.access), 3))

    walk = GuidedWalk(task, plan_of(task), SEARCH, Asked(NETWORK, fresh_params()))
    stake = dict(zip(task.free.tolist(), walk.shares, strict=True))
    walk.query()
    (part,), whole = asked, decisions_along(task, walk.plan)
    assert len(part.access) == 20 < len(whole.access)
    assert (np.diff(part.access) > 0).all()
    least = min(stake[access] for access in part.access.tolist())
    others = set(whole.access.tolist()) - set(part.access.tolist())
    assert all(stake.get(access, 0.0) <= least + 1e-12 for access in others)
    rows = np.searchsorted(whole.access, part.access)
    assert np.array_equal(part.observation, whole.observation[rows])
    assert np.array_equal(part.move, whole.move[rows])
