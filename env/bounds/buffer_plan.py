"""Plans of single buffers: stays and copies that follow a solution, with its shares rounded to yes or no."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..program.mapping import CROSS_PROGRAM, PREFETCH, WRITE_BACK
from ..program.program import Program
from .linear_program import Expression
from .placement import Placement, Stretch
from .touches import Touch, touches

_GROWTH = 1e-3  # smaller growth of a share is rounding


@dataclass
class BufferPlan:
    """The plan of one buffer.

    Attributes:
      fast: instructions of the touches served from fast memory.
      stays: `[first instruction, last]` in fast memory.
      copies: `[direction, start, end, limit]`; the limit is the latest end of a write-back, the earliest start of a
        prefetch.
    """

    fast: set[int]
    stays: list[list[int]] = field(default_factory=list)
    copies: list[list[int]] = field(default_factory=list)


class BufferPlanner:
    """Plans buffers one by one; copies run in the windows that the solution gives them.

    Attributes:
      histories: per buffer, its touches in program order.
      not_before: `(buffer, instruction of a touch)` -> earliest issue of the prefetch for it, to save memory.
    """

    def __init__(self, program: Program, placement: Placement, values: NDArray[np.float64]) -> None:
        self._program, self._values, self._stretches = program, values, placement.stretches
        self.histories = touches(program)
        self.not_before: dict[tuple[int, int], int] = {}

    def plan(self, buffer: int, fast: set[int], *, cross_program: bool) -> BufferPlan:
        """Returns the plan of a buffer.

        Args:
          buffer: the buffer.
          fast: instructions of the touches that are to be fast. The plan may serve others too.
          cross_program: the previous execution prefetches it, and it stays throughout.
        """
        history, plan = self.histories[buffer], BufferPlan(set())
        if fast and cross_program:
            plan.fast = {touch.instruction for touch in history}
            plan.stays, plan.copies = [[0, self._program.num_instructions - 1]], [[CROSS_PROGRAM, -1, 0, 0]]
        elif fast:
            self._walk(buffer, history, fast, plan)
        return plan

    def _walk(self, buffer: int, history: list[Touch], fast: set[int], plan: BufferPlan) -> None:
        """Follows the value of a buffer from touch to touch, and adds the stays and copies it needs to its plan."""
        steps = self._program.num_instructions
        stay: list[int] | None = None  # the residency that holds the value
        in_hbm: int | None = -1 if self._program.definition[buffer] < 0 else None  # earliest issue of a prefetch
        written = -1
        for touch in history:
            t, wanted = touch.instruction, touch.instruction in fast
            if touch.reads:
                stretch = self._stretches.get((buffer, t))
                keep = stay is not None and (in_hbm is None or stretch is None or self._at(stretch.kept) >= 0.5)
                if wanted and not (keep and stay is not None):
                    earliest = max(-1 if in_hbm is None else in_hbm, stay[1] if stay is not None else -1)
                    start = max(earliest, self._issue(buffer, t, stretch))
                    if in_hbm is None or start >= t:
                        wanted = keep = stay is not None
                    else:
                        stay = [start + 1, t]
                        plan.stays.append(stay)
                        plan.copies.append([PREFETCH, start, t, earliest])
                if (not wanted or touch.slow) and in_hbm is None:  # a write-back must have come before
                    assert stay is not None
                    if touch.writes and touch.may_be_fast:
                        wanted = True  # in place, and no other memory holds the value
                    else:
                        in_hbm = self._write_back(buffer, plan, stay, written, t, self._stretches.get((buffer, t)))
                if wanted and stay is not None:
                    stay[1] = max(stay[1], t)
            if touch.writes:
                if wanted:
                    if not touch.reads or stay is None:
                        stay = [t, t]
                        plan.stays.append(stay)
                    in_hbm, written = None, t
                    again = self._next_need(buffer, history, t, fast)
                    if again is not None:
                        in_hbm = self._write_back(buffer, plan, stay, t, again, self._next_stretch(buffer, history, t))
                else:
                    stay, in_hbm = None, t
            if wanted:
                plan.fast.add(t)
        if self._program.is_output[buffer] and in_hbm is None and stay is not None:
            self._write_back(buffer, plan, stay, written, steps, self._stretches.get((buffer, steps)))

    def _next_need(self, buffer: int, history: list[Touch], t: int, fast: set[int]) -> int | None:
        """Returns the instruction by which the solution needs the value written at `t` in HBM; None for never."""
        for touch in history:
            if touch.instruction > t:
                if not touch.reads:
                    return None
                stretch = self._stretches.get((buffer, touch.instruction))
                if touch.instruction not in fast or touch.slow:
                    return None if touch.writes and touch.may_be_fast else touch.instruction
                if stretch is not None and self._at(stretch.kept) < 0.5:
                    start = self._issue(buffer, touch.instruction, stretch)
                    return start if start > t else None
                if touch.writes:
                    return None
        return None

    def _next_stretch(self, buffer: int, history: list[Touch], t: int) -> Stretch | None:
        """Returns the stretch after touch `t`, or None."""
        following = next((touch.instruction for touch in history if touch.instruction > t), None)
        return None if following is None else self._stretches.get((buffer, following))

    def _write_back(
        self, buffer: int, plan: BufferPlan, stay: list[int], start: int, need: int, stretch: Stretch | None
    ) -> int:
        """Adds a write-back to a plan; it ends when the solution's does, and no later than `need`.

        Args:
          buffer: the buffer.
          plan: its plan.
          stay: the stay that holds the value; it lasts until the write-back is complete.
          start: instruction after which it is issued.
          need: instruction before which the value must be in HBM.
          stretch: the solution's stretch in which it runs, if any.

        Returns:
          The instruction before which the write-back is complete.
        """
        end = need
        if stretch is not None:
            grown = [
                last
                for (_, _, before), (_, last, after) in zip(stretch.in_hbm[:-1], stretch.in_hbm[1:], strict=True)
                if self._at(after) - self._at(before) > _GROWTH
            ]
            if grown:
                end = min(end, (grown[-1] + 1) // 2)
        end = max(end, start + 1)
        plan.copies.append([WRITE_BACK, start, end, max(need, end)])
        stay[1] = max(stay[1], end - 1)
        return end

    def _issue(self, buffer: int, t: int, stretch: Stretch | None) -> int:
        """Returns the instruction after which the solution begins to fetch for touch `t`."""
        start = t - 1
        if stretch is not None:
            for (_, _, before), (first, _, after) in zip(stretch.fetched[:-1], stretch.fetched[1:], strict=True):
                if self._at(after) - self._at(before) > _GROWTH:
                    start = min(start, first // 2 - 1)
                    break
        return max(start, self.not_before.get((buffer, t), -1))

    def _at(self, share: Expression) -> float:
        return share.at(self._values)
