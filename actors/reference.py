"""Rewards for learning: seconds made dimensionless, against a reference line of play on the same program."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
      room_s: seconds between the reference line and the floor.
      reference_s: latency of the reference line.
      floor_s: the lower bound.
    """

    saved_s: NDArray[np.float64]
    unit_s: float
    room_s: float
    reference_s: float
    floor_s: float

    def reward(self, saved_s: float, since: int, until: int) -> float:
        """Returns the reward for saving `saved_s` seconds from access `since` to access `until` (`A` at the end)."""
        return float((saved_s - (self.saved_s[until] - self.saved_s[since])) / self.unit_s)

    def score(self, latency_s: float) -> float:
        """Returns how good a latency is: 0 is as good as greedy, 1 cannot be beaten."""
        return (self.reference_s - latency_s) / self.room_s


# Where greedy is within this share of its latency from the floor, that share counts: else noise would be magnified.
_LEAST_ROOM = 0.01
# Decisions that share one unit of the room.
_DECISIONS_PER_UNIT = 64


def make_scale(game: MallocGame) -> RewardScale:
    """Returns the scale for the program of `game`, which it plays."""
    play_greedy(game)
    floor_s = game.judge.floor_s()
    room_s = max(game.latency_s - floor_s, _LEAST_ROOM * game.latency_s)
    unit_s = room_s * _DECISIONS_PER_UNIT / max(game.decisions, _DECISIONS_PER_UNIT)
    return RewardScale(saved_before_access(game), unit_s, room_s, game.latency_s, floor_s)
