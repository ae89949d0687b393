"""Events of a buffer in program order: its accesses, and copies that are issued and completed between them."""

from enum import IntEnum
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..program.program import OPERAND, Program


class Copy(NamedTuple):
    """A row of `Mapping.copies`, then its row number."""

    buffer: int
    direction: int
    start: int
    end: int
    low: int
    high: int
    source: int
    replaces: int
    number: int


class Access(NamedTuple):
    """All accesses of one instruction to one buffer: per operand and per result, whether it is served fast."""

    instruction: int
    operands: list[bool]
    results: list[bool]


class Action(IntEnum):
    """The effect of an event on the buffer."""

    ACCESS = 0  # an instruction reads or writes it
    ISSUE = 1  # a copy into one of its places is issued
    DONE = 2  # such a copy is complete
    SOURCE_ISSUE = 3  # a copy into another buffer, which reads this one, is issued
    SOURCE_DONE = 4  # such a copy is complete


class Event(NamedTuple):
    """An access, or one end of a copy. The first three fields order events.

    Attributes:
      key: `2 t + 1` is instruction `t`, `2 t + 2` the gap after it. The end of a loop's body still belongs to its last
        instruction.
      late: 1 for the end of a copy: in one gap, copies are issued before others complete. Where several bodies end
        together, the more the outer the loop.
      number: number of the copy; 0 for an access.
      loop: innermost loop around it, or -1.
      action: the effect.
      cause: the access or the copy.
    """

    key: int
    late: int
    number: int
    loop: int
    action: Action
    cause: Access | Copy


def accesses_by_buffer(program: Program, access_fast: NDArray[np.bool_]) -> list[list[Access]]:
    """Returns, per buffer, its accesses by instruction."""
    found: list[list[Access]] = [[] for _ in range(program.num_buffers)]
    columns = (program.access_instruction, program.access_buffer, program.access_kind, access_fast)
    latest = [-1] * program.num_buffers
    for instruction, buffer, kind, fast in zip(*(column.tolist() for column in columns), strict=True):
        if latest[buffer] != instruction:
            latest[buffer] = instruction
            found[buffer].append(Access(instruction, [], []))
        _, operands, results = found[buffer][-1]
        (operands if kind == OPERAND else results).append(fast)
    return found


class LoopNest:
    """The loops around instructions, and around the gaps between them.

    Attributes:
      parent, first, last: per loop, the enclosing loop or -1; first and last instruction.
      of_instruction: `[T]` innermost loop of an instruction, or -1.
      of_gap: `[T + 1]` innermost loop around the gap before an instruction, or -1.
      branches: of each loop that is a conditional, the loops that are its branches, in order.
    """

    def __init__(self, program: Program) -> None:
        self.parent = program.loop_parent.tolist()
        self.first = program.loop_first.tolist()
        self.last = program.loop_last.tolist()
        self.of_instruction = program.loop.tolist()
        conditional = [] if program.conditional is None else np.flatnonzero(program.conditional).tolist()
        self.branches = {loop: np.flatnonzero(program.loop_parent == loop).tolist() for loop in conditional}
        around = [-1, *self.of_instruction, -1]
        self.of_gap = [self._common(a, b) for a, b in pairwise(around)]

    def _common(self, a: int, b: int) -> int:
        """Returns the innermost loop around both. A parent has a smaller number than its child."""
        while a != b:
            a, b = (self.parent[a], b) if a > b else (a, self.parent[b])
        return a

    def ended_by(self, start: int, end: int) -> int:
        """Returns the loop with whose body a copy ends, or -1: it starts in the body and is due right after it."""
        loop = self.of_instruction[start] if start >= 0 else -1
        while loop >= 0 and not (start < self.last[loop] and end == self.last[loop] + 1):
            loop = self.parent[loop]
        return loop

    def is_done_before(self, one: Copy, other: Copy) -> bool:
        """Returns whether a copy is complete before another is issued: in one gap, copies are issued first."""
        with_body = self.ended_by(one.start, one.end) >= 0
        return one.end <= other.start + int(with_body)

    def is_within(self, loop: int, outer: int) -> bool:
        """Returns whether `loop` is `outer` or lies inside it. A parent has a smaller number than its child."""
        while loop > outer:
            loop = self.parent[loop]
        return loop == outer

    def depth(self, loop: int) -> int:
        """Returns the number of loops around and including `loop`."""
        found = 0
        while loop >= 0:
            loop, found = self.parent[loop], found + 1
        return found

    def child(self, loop: int, inner: int) -> int:
        """Returns the loop directly inside `loop` that holds `inner`."""
        while self.parent[inner] != loop:
            inner = self.parent[inner]
        return inner


def events_of(accesses: list[Access], copies: list[Copy], read_by: list[Copy], loops: LoopNest) -> list[Event]:
    """Returns the events of a buffer in order.

    Args:
      accesses: its accesses.
      copies: copies into its places.
      read_by: copies into other buffers that read it.
      loops: the loop nest.
    """
    events = [
        Event(2 * a.instruction + 1, 0, 0, loops.of_instruction[a.instruction], Action.ACCESS, a) for a in accesses
    ]
    for group, issue, done in (
        (copies, Action.ISSUE, Action.DONE),
        (read_by, Action.SOURCE_ISSUE, Action.SOURCE_DONE),
    ):
        for c in group:
            events.append(Event(2 * c.start + 2, 0, c.number, loops.of_gap[c.start + 1], issue, c))
            body = loops.ended_by(c.start, c.end)
            if body < 0:
                events.append(Event(2 * c.end, 1, c.number, loops.of_gap[c.end], done, c))
            else:
                late = 1 + len(loops.parent) - loops.depth(body)
                events.append(Event(2 * c.end - 1, late, c.number, body, done, c))
    events.sort(key=lambda event: event[:3])
    return events
