"""When loops begin and end in the compiler's schedule: from its log, or as far as the program shows."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...env.program.assignment_facts import AssignmentFacts
from ...env.program.program import Program


class LoopTimes(NamedTuple):
    """Times of loops, and of conditionals and their branches. Shape: `[L]`.

    Attributes:
      begins: the first time of all.
      arrives: when a value arrives that the loop uses.
      enters: when the body has it, or the first branch.
      returns: when a pass returns what it hands on.
      ends: when what comes out of the loop is defined.
    """

    begins: NDArray[np.int64]
    arrives: NDArray[np.int64]
    enters: NDArray[np.int64]
    returns: NDArray[np.int64]
    ends: NDArray[np.int64]

    def innermost(self, program: Program, loop: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns `[S]` the innermost loop of each time, given that of each time between instructions."""
        found, taken = loop.copy(), np.isin(np.arange(len(loop)), program.schedule_index)
        for index in range(len(self.begins)):
            found[self.begins[index] : self.returns[index] + 1] = index
        # An instruction's loop is known.
        found[taken] = program.loop[np.searchsorted(program.schedule_index, np.flatnonzero(taken))]
        return found


def loop_times(program: Program, facts: AssignmentFacts | None, end: int) -> LoopTimes:
    """Returns the times of loops in a schedule whose last time is `end`."""
    if facts is None:
        return _guessed(program, end)
    begins, enters, returns, ends = facts.loop_times.T
    branch = np.array([kind == "branch" for kind in program.loop_kinds], bool)
    return LoopTimes(begins, enters, enters, returns, np.where(branch, returns, ends))


def _guessed(program: Program, end: int) -> LoopTimes:
    """Returns the times as the instructions of a program let one guess them."""
    at = program.schedule_index.astype(np.int64)
    taken = set(at.tolist())
    first, last = at[program.loop_first], at[program.loop_last]
    enters = [time + (time + 1 not in taken) for time in first.tolist()]
    returns = [
        time if program.opcodes[t] == "tuple" or time + 1 in taken or time + 1 >= end else time + 1
        for t, time in zip(program.loop_last.tolist(), last.tolist(), strict=True)
    ]
    ends = [time + (time + 1 not in taken and time + 1 < end) for time in returns]
    return LoopTimes(first, first, np.array(enters, np.int64), np.array(returns, np.int64), np.array(ends, np.int64))
