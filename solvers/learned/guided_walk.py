"""An annealing walk that takes some of its changes from the network's proposals."""

import numpy as np

from ...env.game.plan import Plan
from ...env.residency.position import Position
from ..anneal import SEARCH
from ..common.task import Task
from ..common.walk import Walk
from .config import GuidedConfig
from .proposals import Proposals
from .score import Score


class GuidedWalk:
    """A walk and proposals that share one current game: the walk changes single accesses, the network whole stays.

    Attributes:
      plan_tables: the tables that plans are played on.
      walk: the walk.
    """

    def __init__(self, task: Task, plan: Plan, score: Score | None, config: GuidedConfig) -> None:
        """Plays `plan[A]` on the tables that `task` uses now; without a score it is the plain walk."""
        self._task, self._share, self._batch = task, config.proposed_share, config.proposals.batch
        self.plan_tables, self.walk = task.plan_tables, Walk(task, plan, SEARCH)
        self._proposals: Proposals | None = None
        if score is not None and config.proposed_share > 0.0:
            position = Position(task.plan_game, self.walk.plan, played=self.walk.played)
            self._proposals = Proposals(task, position, score, config.proposals)
        # Games by which the network is behind its share; negative if it is ahead.
        self._credit = 0.0

    @property
    def best_s(self) -> float:
        """Judged seconds of the best game, that of `best_plan`."""
        return self.walk.best_s

    @property
    def scale(self) -> float:
        """The unit of temperatures in seconds, see `Walk.scale`."""
        return self.walk.scale

    @property
    def best_plan(self) -> Plan:
        """`[A]` the plan of the best game."""
        return self.walk.best_plan

    def step(self, games: int, temperature: float) -> None:
        """Plays about `games` changed games at a temperature in seconds; at 0 only improvements are kept."""
        if self._proposals is None:
            self.walk.step(games, temperature)
            return
        played = 0
        while played < games and not self._task.done:
            some = int(np.clip(games - played, 1, self._batch))
            if self._credit >= 0.0:
                some = self._proposals.step(some, temperature)
                self._credit -= some * (1.0 - self._share)
            else:
                self.walk.step(some, temperature)
                self._proposals.games_since += some
                self._credit += some * self._share
            played += some
