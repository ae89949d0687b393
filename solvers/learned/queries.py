"""The schedule of policy queries: when a walk asks the policy, and when the policy is trained."""

import numpy as np

from ..common.task import Task
from .adaptation import Adaptation
from .config import GuidedConfig
from .decisions import Change
from .proposer import Proposer
from .walk import GuidedWalk, Walk


class PolicyQueries:
    """Queries the policy about walks, within its share of the time and only as often as that pays.

    On a long program a query takes as long as hundreds of games. Where a query gains less than walking gains in the
    same time, the gap before the next one doubles.
    """

    def __init__(self, task: Task, proposer: Proposer, adaptation: Adaptation | None, config: GuidedConfig) -> None:
        self._task, self._proposer, self._adaptation, self._config = task, proposer, adaptation, config
        self._policy_s, self._last_s = 0.0, 0.0
        self._next_query, self._next_training = 0.0, config.training_min_gap
        self._gap = config.query_min_gap
        # The walk of the last query; its best, and the share of the budget spent, once the proposals had been tried.
        self._walk: Walk | None = None
        self._best_s, self._spent = np.inf, 0.0

    def query(self, walk: Walk) -> bool:
        """Queries the policy about the walk's current plan if it is time, and tries the proposals; returns whether it
        did."""
        task, config = self._task, self._config
        if not isinstance(walk, GuidedWalk) or task.spent < self._next_query or not self._affordable():
            return False
        by_walking = (self._best_s - walk.best_s) / max(task.spent - self._spent, 1e-9) if walk is self._walk else 0.0
        before_s, begin, begin_s = walk.best_s, task.spent, task.seconds
        improvements = self._train(walk)
        walk.query()
        self._last_s = task.seconds - begin_s
        self._policy_s += self._last_s
        walk.suggest(improvements)
        self._try_proposals(walk)
        self._walk, self._best_s, self._spent = walk, walk.best_s, task.spent
        by_query = (before_s - walk.best_s) / max(task.spent - begin, 1e-9)
        self._gap = config.query_min_gap if by_query > by_walking else min(2.0 * self._gap, config.query_max_gap)
        self._next_query = task.spent + self._gap
        return True

    def _affordable(self) -> bool:
        if self._task.budget.seconds is None:
            return True
        return self._policy_s + self._last_s <= self._config.policy_max_share * self._task.seconds

    def _train(self, walk: Walk) -> list[Change]:
        """Trains the policy if it is time to; returns changes that improve the walk's plan, best last."""
        task = self._task
        if self._adaptation is None or task.spent < self._next_training:
            return []
        task.doing = "training the policy on this program"
        begin = task.spent
        found = self._adaptation.train(task, walk.plan, self._proposer)
        self._next_training = task.spent + max(self._config.training_min_gap, 10.0 * (task.spent - begin))
        return found

    def _try_proposals(self, walk: GuidedWalk) -> None:
        """Tries proposals until their share of the budget is spent, or none is left."""
        task = self._task
        task.doing = "moves that the policy proposes"
        end = task.spent + self._config.proposal_share
        while not task.done and task.spent < end and walk.try_proposals(task.games_per_look()):
            pass
