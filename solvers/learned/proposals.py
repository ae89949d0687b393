"""Changes that the network proposes, tried on a position."""

import numpy as np
from numpy.typing import NDArray

from ...env.residency.observation import Observer
from ...env.residency.position import Position
from ..common.task import Task
from .config import ProposalConfig
from .score import Score

# A change that has been tried loses this much of its logit, and regains half of it whenever another change gains.
_TRIED = 4.0
# The cost of a changed game that does not depend on where it begins, in whole games.
_FIXED_COST = 0.1
# The logit of a change that changes nothing.
_NEVER = np.float32(-1e9)


class Proposals:
    """Draws changes by their scores, the likeliest to gain first apart from noise, and tries them.

    A batch is drawn without replacement from the softmax of the scores (Gumbel top-k). Scores are computed anew every
    `games_per_score` games: in between the position moves on, and a change that has been tried counts for less.

    Attributes:
      position: the position.
      games_since: games since the last scores; others who change the position add theirs.
    """

    def __init__(self, task: Task, position: Position, score: Score, config: ProposalConfig) -> None:
        """Takes a position on the tables that `task` uses now."""
        self._task, self._tables, self._score, self._config = task, task.plan_tables, score, config
        self.position, self._observer = position, Observer(position)
        count = len(position.changes.stay)
        self._penalty, self._logits = np.zeros(count, np.float32), np.full(count, _NEVER)
        self._cheapness = _cheapness(position, config.cost_weight)
        self._queue = np.zeros(0, np.int64)
        self.games_since = config.games_per_score

    def step(self, games: int, temperature: float = 0.0) -> int:
        """Tries at most `games` changes at a temperature in seconds; returns the number of games played, at least 1."""
        task, position = self._task, self.position
        task.use(self._tables)
        if not len(self._queue):
            if self.games_since >= self._config.games_per_score:
                self._look()
            self._queue = self._draw(self._config.batch)
        numbers, self._queue = self._queue[:games], self._queue[games:]
        before_s = position.seconds
        played = position.climb(numbers, np.empty(len(numbers)), temperature, task.generator)
        if position.seconds < before_s:
            self._penalty *= 0.5
        self._penalty[numbers] += _TRIED
        if not played:  # nothing to try, or nothing that changes a move
            self.games_since = self._config.games_per_score
        self.games_since += played
        task.evaluations += max(played, 1)
        task.offer(position.best_plan, position.best_seconds)
        return max(played, 1)

    def play(self, games: int) -> None:
        """Tries changes until `games` games are played or the budget is spent; only improvements are kept."""
        played = 0
        while played < games and not self._task.done:
            played += self.step(min(games - played, max(1, self._task.games_per_look())))

    def _look(self) -> None:
        """Scores all changes of the current game."""
        rows, changes = self._observer.observe(), self.position.changes
        scores = self._config.sharpness * self._score(rows, changes.stay, changes.placement) + self._cheapness
        self._logits = np.where(self._observer.changing, scores, _NEVER).astype(np.float32)
        self.games_since = 0
        self._task.evaluations += 1  # the observation's

    def _draw(self, count: int) -> NDArray[np.int64]:
        """Returns `count` changes, or as many as change anything."""
        noise = self._task.generator.standard_exponential(len(self._logits), dtype=np.float32)
        drawn = self._logits - self._penalty - np.log(np.maximum(noise, np.float32(1e-30)))
        count = min(count, len(drawn))
        if not count:
            return np.zeros(0, np.int64)
        best = np.argpartition(-drawn, count - 1)[:count]
        best = best[np.argsort(-drawn[best], kind="stable")]
        return best[self._logits[best] > _NEVER / 2].astype(np.int64)


def _cheapness(position: Position, weight: float) -> NDArray[np.float32]:
    """Returns `[C]` the logits for what a changed game costs: it is played from the first access of the stay on."""
    changes = position.changes
    if not len(changes.stay):
        return np.zeros(0, np.float32)
    accesses = len(position.plan)
    first = changes.member[changes.first[changes.stay]]
    return (-weight * np.log(_FIXED_COST + 1.0 - first / accesses)).astype(np.float32)
