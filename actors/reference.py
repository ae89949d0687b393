"""Rewards for learning: seconds made dimensionless, against a reference line of play on the same program."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..env.cost import floor_latency
from ..env.game import MallocGame
from .greedy import play_greedy, saved_before_access


@dataclass(frozen=True, eq=False)
class RewardScale:
    """Turns seconds saved into rewards that mean the same on every program.

    A move earns what it saves beyond what the greedy player had saved by the same access, in units of the greedy
    player's distance to the floor. So a game's rewards sum to `(greedy latency - latency) / (greedy latency - floor)`:
    0 is as good as greedy, 1 cannot be beaten. Subtracting a fixed line changes no comparison between moves; it takes
    the large, common part out of what the value head has to predict.

    Attributes:
      saved_s: `[A + 1]` weighted seconds that the reference had saved before each access; the last entry in all.
      unit_s: seconds of one unit of reward.
      reference_s: latency of the reference line.
      floor_s: the lower bound.
    """

    saved_s: NDArray[np.float64]
    unit_s: float
    reference_s: float
    floor_s: float

    def reward(self, saved_s: float, since: int, until: int) -> float:
        """Returns the reward for saving `saved_s` seconds from access `since` to access `until` (`A` at the end)."""
        return float((saved_s - (self.saved_s[until] - self.saved_s[since])) / self.unit_s)

    def score(self, latency_s: float) -> float:
        """Returns the sum of rewards of a game with this latency."""
        return (self.reference_s - latency_s) / self.unit_s


# Where greedy is within this share of its latency from the floor, the unit is that share: else noise would be
# magnified.
_LEAST_UNIT = 0.01


def make_scale(game: MallocGame) -> RewardScale:
    """Returns the scale for the program of `game`, which it plays."""
    play_greedy(game)
    floor_s = floor_latency(game.program, game.target, game.model)
    unit_s = max(game.latency_s - floor_s, _LEAST_UNIT * game.latency_s)
    return RewardScale(saved_before_access(game), unit_s, game.latency_s, floor_s)
