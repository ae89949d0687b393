"""The policy is queried within its share of the time, and less often where it gains less than walking."""

import numpy as np
import pytest
from guided_cases import NETWORK, Favouring, fresh_params, make_task, plan_of
from numpy.typing import NDArray

from mallocmuzero.env.workloads import load
from mallocmuzero.solvers.anneal import SEARCH
from mallocmuzero.solvers.common.budget import CLOCKS, WALL, Budget
from mallocmuzero.solvers.common.task import Task
from mallocmuzero.solvers.learned.config import GuidedConfig
from mallocmuzero.solvers.learned.decisions import Decisions
from mallocmuzero.solvers.learned.proposer import Proposer
from mallocmuzero.solvers.learned.queries import PolicyQueries
from mallocmuzero.solvers.learned.walk import GuidedWalk


class Slow(Proposer):
    """Takes a second to answer, and proposes nothing."""

    def __init__(self, now: list[float]) -> None:
        super().__init__(NETWORK, fresh_params())
        self._now = now

    def odds(self, decisions: Decisions) -> NDArray[np.float64]:
        self._now[0] += 1.0
        return np.zeros((len(decisions.access), 3))


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock to be set by hand."""
    time = [0.0]
    monkeypatch.setitem(CLOCKS, WALL, lambda: time[0])
    return time


def make_queries(proposer: Proposer, **config: float) -> tuple[PolicyQueries, GuidedWalk]:
    task = Task(load("resnet50-b32-v4"), None, None, Budget(100.0), 0)
    walk = GuidedWalk(task, plan_of(task, 2), SEARCH, proposer)
    return PolicyQueries(task, proposer, None, GuidedConfig(**config)), walk


def test_the_policy_keeps_to_its_share_of_the_time(now: list[float]) -> None:
    queries, walk = make_queries(Slow(now), policy_max_share=0.1, query_min_gap=0.0)
    assert queries.query(walk)  # how long it takes is not known before
    assert not queries.query(walk)
    now[0] = 19.0
    assert not queries.query(walk)  # a second one would make it 2 of 20
    now[0] = 20.0
    assert queries.query(walk)
    assert not queries.query(walk)


def test_without_a_limit_of_seconds_queries_go_by_games_alone() -> None:
    task, proposer = make_task(1000), Favouring(0.0)
    walk = GuidedWalk(task, plan_of(task), SEARCH, proposer)
    queries = PolicyQueries(task, proposer, None, GuidedConfig(query_min_gap=0.1, policy_max_share=0.0))
    when = []
    while not task.done:
        if queries.query(walk):
            when.append(task.evaluations)
        walk.step(10, 0.0)
    assert len(when) > 2


def test_queries_that_gain_less_than_walking_become_rarer(now: list[float]) -> None:
    queries, walk = make_queries(Slow(now), policy_max_share=1.0, query_min_gap=0.05, query_max_gap=0.3)
    when = []
    while now[0] < 100.0:
        if queries.query(walk):
            when.append(now[0])
        now[0] += 1.0
    # Nobody gains anything: the gap becomes 10, 20, then 30 of 100 seconds instead of 5.
    assert np.diff(when).tolist() == pytest.approx([10.0, 20.0, 30.0, 30.0], abs=2.0)


def test_queries_that_gain_stay_as_frequent_as_they_may_be(now: list[float]) -> None:
    when: list[float] = []

    class Gaining(Slow):
        def odds(self, decisions: Decisions) -> NDArray[np.float64]:
            found = super().odds(decisions)
            found[decisions.legal] = 2.0
            found[np.arange(len(decisions.move)), decisions.move] = 0.0
            found[3 * len(when) + 3 :] = 0.0  # a few at a time
            return found

    queries, walk = make_queries(Gaining(now), policy_max_share=1.0, query_min_gap=0.05, query_max_gap=0.3)
    gains = []
    while len(when) < 6:
        before = walk.best_s
        if queries.query(walk):
            when.append(now[0])
            gains.append(before - walk.best_s)
        now[0] += 1.0
    waited = np.diff(when)
    assert sum(gain > 0.0 for gain in gains[:-1]) >= 2
    assert all(wait <= 7.0 for wait, gain in zip(waited, gains, strict=False) if gain > 0.0)
