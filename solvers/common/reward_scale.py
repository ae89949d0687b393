"""The scale of rewards: seconds made dimensionless, so that rewards and scores mean the same on every program."""

from dataclasses import dataclass

from ...env.game.game import MallocGame
from .greedy_rules import play_greedy

# Least headroom, as a share of the reference's latency: where the reference nearly reaches the floor, a smaller unit
# would magnify noise.
_MIN_HEADROOM = 0.01
# Decisions that share one unit of reward.
_DECISIONS_PER_UNIT = 64
# Difference of outcomes, in units of reward, that counts as clear in a policy target (`policy_of_outcomes`).
CLEAR_DIFFERENCE = 0.02


@dataclass(frozen=True)
class RewardScale:
    """The unit of reward on a program, and the range of scores.

    Attributes:
      unit_s: seconds of one unit of reward: the headroom, shared out among the decisions.
      headroom_s: seconds between the greedy player's game and the floor.
      reference_s: latency of the greedy player's game.
      floor_s: the lower bound of any latency.
    """

    unit_s: float
    headroom_s: float
    reference_s: float
    floor_s: float

    def score(self, latency_s: float) -> float:
        """Returns the normalised score of a latency: 0 equals greedy, 1 is the floor."""
        return (self.reference_s - latency_s) / self.headroom_s


def make_scale(game: MallocGame) -> RewardScale:
    """Plays `game` by greedy rules and returns the scale of its program."""
    play_greedy(game)
    floor_s = game.judge.floor_s()
    headroom_s = headroom_of(game.latency_s, floor_s)
    return RewardScale(unit_of(headroom_s, game.decisions), headroom_s, game.latency_s, floor_s)


def headroom_of(reference_s: float, floor_s: float) -> float:
    """Returns the seconds from a reference latency down to the floor, at least 1 % of the reference."""
    return max(reference_s - floor_s, _MIN_HEADROOM * reference_s)


def unit_of(headroom_s: float, decisions: int) -> float:
    """Returns the seconds of one unit of reward: the headroom of 64 decisions, all of it in shorter games."""
    return headroom_s * _DECISIONS_PER_UNIT / max(decisions, _DECISIONS_PER_UNIT)
