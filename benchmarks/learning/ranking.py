"""How much of the possible gain lies in the changes that scores rank first."""

import numpy as np
from numpy.typing import NDArray

from mallocmuzero.env.residency.observation import Observer
from mallocmuzero.env.residency.position import Position
from mallocmuzero.solvers.common.task import Task
from mallocmuzero.solvers.learned.score import Score
from mallocmuzero.solvers.starts.plans import portfolio_starts

# Share of the changes that counts as the top.
TOP = 0.05
# Changes that are played, at most: chosen at random of those that change a move.
_PLAYED = 1_000


class Outcomes:
    """A position after the best of the rules, with the outcomes of its changes in the real game.

    Attributes:
      rows: `[S, STAY_FEATURES]` the observation.
      stay, placement: `[K]` the changes that were played.
      gain_s: `[K]` judged seconds that each saves, 0 where it saves none.
    """

    def __init__(self, task: Task, seed: int) -> None:
        """Plays at most 1,000 changes of a position of `task`."""
        best = min(portfolio_starts(task, 1.0, 1, further=False), key=lambda start: start.seconds)
        task.use(best.plan_tables)
        position = Position(task.plan_game, best.plan)
        observer = Observer(position)
        self.rows = observer.observe().copy()
        changes = position.changes
        possible = np.flatnonzero(observer.changing)
        drawn = np.sort(np.random.default_rng(seed).permutation(possible)[:_PLAYED])
        seconds = position.outcomes(drawn)
        played = np.isfinite(seconds)
        self.stay, self.placement = changes.stay[drawn[played]], changes.placement[drawn[played]]
        self.gain_s = np.maximum(0.0, position.seconds - seconds[played])

    def share_of_gain(self, score: Score) -> float:
        """Returns the share of all gain that the top of the changes by `score` holds; NaN where no change gains."""
        return top_share(score(self.rows, self.stay, self.placement), self.gain_s)


def top_share(scores: NDArray[np.floating], gain: NDArray[np.float64], top: float = TOP) -> float:
    """Returns the share of the sum of `gain[K]` in the first by `scores[K]`, `top` of them, at least one."""
    if not np.sum(gain) > 0.0:
        return float("nan")
    first = np.argsort(-scores, kind="stable")[: max(1, round(top * len(scores)))]
    return float(np.sum(gain[first]) / np.sum(gain))
