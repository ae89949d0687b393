"""The definition of a segment, shared by actors, both replays and the learner.

Shapes: `S` rows of a segment (`unroll_steps + td_steps + 1`), `D` observation size, `A` actions, `B` batch.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..env.errors import UserError


class Step(NamedTuple):
    """One decision of an episode.

    Attributes:
      observation: `[D]` float32.
      legal: `[A]` bool, the legal moves.
      action: the move played.
      reward: reward of the move, dimensionless.
      discount: weight of the rewards that follow; 0 on the last step of an episode and only there.
      policy: `[A]` float32, action weights of the search; they sum to 1.
      value: the search's value of the root.
      outcome: `[A]` float32, the reward of each move where the real game has reported it, else NaN; None for none.
    """

    observation: np.ndarray
    legal: np.ndarray
    action: int
    reward: float
    discount: float
    policy: np.ndarray
    value: float
    outcome: np.ndarray | None = None


@dataclass(frozen=True)
class Segment:
    """`S` consecutive steps. Rows after the end of the episode are absorbing (see `SegmentSpec.absorbing`).

    Attributes:
      observation: `[S, D]` float32.
      legal: `[S, A]` bool.
      action: `[S]` int32.
      reward: `[S]` float32.
      discount: `[S]` float32.
      policy: `[S, A]` float32.
      value: `[S]` float32.
      outcome: `[S, A]` float32, NaN where it is unknown.
      valid: `[S]` bool, False on absorbing rows.
    """

    observation: np.ndarray
    legal: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    discount: np.ndarray
    policy: np.ndarray
    value: np.ndarray
    outcome: np.ndarray
    valid: np.ndarray


@dataclass(frozen=True)
class Batch(Segment):
    """`B` sampled segments: every field of `Segment` with a leading `B`, and the draw of each.

    Attributes:
      key: `[B]` uint64, identifies the segment to `update_priorities`.
      probability: `[B]` float64, the probability of the segment in a single draw.
      table_size: segments in the table when the last of the batch was drawn.
    """

    key: np.ndarray
    probability: np.ndarray
    table_size: int


@dataclass(frozen=True)
class SegmentSpec:
    """Sizes of steps and segments.

    Attributes:
      observation_size: `D`.
      num_actions: `A`.
      unroll_steps: moves that the learner unrolls its model for.
      td_steps: rewards summed before the bootstrap.
      period: a segment starts at steps 0, `period`, 2 `period`, ... of an episode. At most `S`, so that segments cover
        every step.

    Raises:
      UserError: a size is out of range.
    """

    observation_size: int
    num_actions: int
    unroll_steps: int
    td_steps: int
    period: int

    def __post_init__(self) -> None:
        for name, least in (("observation_size", 1), ("num_actions", 1), ("unroll_steps", 0), ("td_steps", 1)):
            if getattr(self, name) < least:
                raise UserError(f"segment: {name} is {getattr(self, name)}; it must be at least {least}")
        if not 1 <= self.period <= self.length:
            raise UserError(
                f"segment: period is {self.period}; it must be between 1 and unroll_steps + td_steps + 1 = "
                f"{self.length}, or steps between two segments would never be learned from"
            )

    @property
    def length(self) -> int:
        """`S`, the rows of a segment."""
        return self.unroll_steps + self.td_steps + 1

    @cached_property
    def fields(self) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
        """Name -> (shape, dtype) of one row, in the order of `Segment`."""
        vector, actions = (self.observation_size,), (self.num_actions,)
        return {
            "observation": (vector, np.dtype(np.float32)),
            "legal": (actions, np.dtype(np.bool_)),
            "action": ((), np.dtype(np.int32)),
            "reward": ((), np.dtype(np.float32)),
            "discount": ((), np.dtype(np.float32)),
            "policy": (actions, np.dtype(np.float32)),
            "value": ((), np.dtype(np.float32)),
            "outcome": (actions, np.dtype(np.float32)),
            "valid": ((), np.dtype(np.bool_)),
        }

    @property
    def absorbing(self) -> dict[str, np.ndarray]:
        """The row that follows the end of an episode: all moves legal, uniform policy, no outcomes, all else 0."""
        row = {name: np.zeros(shape, dtype) for name, (shape, dtype) in self.fields.items()}
        row["legal"][:] = True
        row["policy"][:] = 1 / self.num_actions
        row["outcome"][:] = np.nan
        return row

    def row(self, step: Step) -> dict[str, np.ndarray]:
        """Returns `step` as a valid row of the right dtypes.

        Raises:
          ValueError: an array of the step has another shape, or the action is not one.
        """
        row = {}
        for name, (shape, dtype) in self.fields.items():
            given = True if name == "valid" else getattr(step, name)
            value = np.full(shape, np.nan, dtype) if given is None else np.asarray(given, dtype)
            if value.shape != shape:
                raise ValueError(f"step.{name} has shape {value.shape}, expected {shape}")
            row[name] = value
        if not 0 <= step.action < self.num_actions:
            raise ValueError(f"step.action is {step.action}, expected 0..{self.num_actions - 1}")
        return row


class SegmentClock:
    """Counts the rows of an episode and reports which of them complete a segment.

    A segment is complete as soon as its `S` rows exist, while the episode goes on. The episode's last step is followed
    by `padding()` absorbing rows, which complete the segments that started in its last steps.

    Attributes:
      rows: rows of the current episode so far, absorbing ones included.
      last_discount: discount of the last step; 1 before the first.
    """

    def __init__(self, spec: SegmentSpec) -> None:
        self._spec = spec
        self.rows = 0
        self.last_discount = 1.0

    def advance(self, discount: float = 0.0) -> bool:
        """Counts one row; returns whether it completes a segment."""
        self.rows += 1
        self.last_discount = float(discount)
        first_row = self.rows - self._spec.length
        return first_row >= 0 and first_row % self._spec.period == 0

    def check_open(self) -> None:
        """Raises ValueError if the episode is over and `end_episode` has to be called before another step."""
        if self.last_discount == 0:
            raise ValueError("the last step had discount 0, so the episode is over: call end_episode() before append()")

    def padding(self) -> int:
        """Returns the absorbing rows that the segments started so far still need.

        Raises:
          ValueError: the episode is not over: absorbing rows would teach that nothing follows its last step.
        """
        if not self.rows:
            return 0
        if self.last_discount != 0:
            raise ValueError(
                f"end_episode() after a step of discount {self.last_discount:g}: the last step of an episode has "
                "discount 0 (cut=True leaves an episode unfinished)"
            )
        last_start = (self.rows - 1) // self._spec.period * self._spec.period
        return max(0, last_start + self._spec.length - self.rows)

    def reset(self) -> None:
        """Begins the next episode."""
        self.rows = 0
        self.last_discount = 1.0
