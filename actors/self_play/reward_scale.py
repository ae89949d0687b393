"""Seconds made dimensionless, so that rewards and scores mean the same on every program."""

from dataclasses import dataclass

from ...env.game.game import MallocGame
from ...solvers.common.greedy_rules import play_greedy


@dataclass(frozen=True)
class RewardScale:
    """What a second is worth on a program.

    Attributes:
      unit_s: seconds of one unit of reward: the room, shared out among the decisions.
      headroom_s: seconds between the greedy player's game and the floor.
      reference_s: latency of the greedy player's game.
      floor_s: the lower bound.
    """

    unit_s: float
    headroom_s: float
    reference_s: float
    floor_s: float

    def score(self, latency_s: float) -> float:
        """Returns how good a latency is: 0 is as good as greedy, 1 cannot be beaten."""
        return (self.reference_s - latency_s) / self.headroom_s


# Where greedy is within this share of its latency from the floor, that share counts: else noise would be magnified.
MIN_HEADROOM = 0.01
# Decisions that share one unit of the room.
DECISIONS_PER_UNIT = 64


def make_scale(game: MallocGame) -> RewardScale:
    """Returns the scale for the program of `game`, which it plays."""
    play_greedy(game)
    floor_s = game.judge.floor_s()
    headroom_s = max(game.latency_s - floor_s, MIN_HEADROOM * game.latency_s)
    unit_s = headroom_s * DECISIONS_PER_UNIT / max(game.decisions, DECISIONS_PER_UNIT)
    return RewardScale(unit_s, headroom_s, game.latency_s, floor_s)
