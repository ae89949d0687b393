"""A climb over changes: the likeliest to gain are tried first, and each that gains is kept."""

import numpy as np
from numpy.typing import NDArray

from ...env.game.plan import Plan
from ...env.residency.changes import Changes
from ...env.residency.observation import CHANGED_SHARE, Observer
from ...env.residency.position import Position
from ..common.task import PlanTables, Task
from .score import Score

# Changes tried between two observations: so many, or this share of all, whichever is more. Scoring all changes of a
# long program takes as long as some dozens of its games.
_BATCH, _BATCH_SHARE = 32, 1 / 64
# A change that has been tried loses so much of its logit, and regains half of it whenever another change is kept.
_TRIED = 4.0
# A climb is stuck after so many batches without a gain.
_IDLE_BATCHES = 4


class Climb:
    """A position and the changes tried from it.

    Attributes:
      position: the position.
      idle: batches since the last gain.
    """

    def __init__(self, task: Task, plan: Plan, score: Score, changes: Changes | None = None) -> None:
        """Begins at `plan[A]`, which is played on the tables that `task` uses now."""
        self._task, self._tables, self._score = task, task.plan_tables, score
        self.position = Position(task.plan_game, plan, changes)
        self._observer = Observer(self.position)
        self._penalty = np.zeros(len(self.position.changes.stay), np.float32)
        self.idle = 0
        task.evaluations += 1
        task.offer(plan, self.position.seconds)

    @property
    def stuck(self) -> bool:
        """True if the last batches have gained nothing."""
        return self.idle >= _IDLE_BATCHES

    @property
    def plan_tables(self) -> PlanTables:
        """The tables that plans are played on."""
        return self._tables

    def step(self, games: int) -> int:
        """Tries about `games` changes; returns the number of games played, 0 if nothing is left to try."""
        task, changes = self._task, self.position.changes
        task.use(self._tables)
        played = 0
        while played < games and not task.done:
            rows = self._observer.observe()
            real = np.flatnonzero(rows[changes.stay, CHANGED_SHARE + changes.placement])
            if not len(real):
                break
            logits = self._score(rows, changes.stay[real], changes.placement[real]) - self._penalty[real]
            batch = min(max(_BATCH, int(_BATCH_SHARE * len(logits))), len(logits))
            best = np.argpartition(-logits, batch - 1)[:batch]
            best = real[best[np.argsort(-logits[best], kind="stable")]]
            before_s = self.position.seconds
            task.evaluations += 1  # the observation's
            played += 1 + self._try(best)
            self.idle += 1
            if self.position.seconds < before_s:
                self.idle = 0
        return played

    def _try(self, numbers: NDArray[np.int64]) -> int:
        """Tries changes until the budget is spent; returns the games played."""
        task, played = self._task, 0
        while len(numbers) and not task.done:
            some, numbers = np.split(numbers, [max(1, task.games_per_look())])
            before_s, tried = self.position.seconds, np.empty(len(some))
            games = self.position.climb(some, tried)
            if self.position.seconds < before_s:
                self._penalty *= 0.5
            self._penalty[some] += _TRIED
            # A change that changes nothing is not tried again until something else has changed.
            self._penalty[some[np.isnan(tried)]] += _TRIED
            played += games
            task.evaluations += games
            task.offer(self.position.plan, self.position.seconds)
        return played
