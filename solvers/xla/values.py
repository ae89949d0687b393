"""The values of a program's buffers and their uses, in loops and branches too (XLA: `HloValue`, `AllocationValue`)."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...env.program.assignment_facts import AssignmentFacts, assignment_facts
from ...env.program.program import RESULT, Program
from ...env.program.target import MORE_FOR_LOOPS, Target
from .cost_analysis import gains
from .loop_times import LoopTimes
from .problem import ANYWHERE, AS_ENTERED, IN_HBM, M_FREE, USE, VALUE, WRITTEN, Accesses
from .schedule import Times


@dataclass(eq=False)
class _Touch:
    """All accesses to a buffer by one instruction, or by one loop.

    Attributes:
      time: of the instruction; of a loop, when the value arrives.
      latest: latest end of a prefetch for it.
      reads, writes: accesses.
      loop: the loop, or -1.
    """

    time: int
    latest: int
    reads: list[int]
    writes: list[int]
    loop: int


@dataclass(eq=False)
class _Use:
    """A use of a value: a row of `USE` in the making, and the accesses that it stands for.

    Attributes:
      is_idle: it is a loop's, and no pass reads what the value brings into it.
    """

    touch: _Touch
    accesses: list[int]
    following: "_Value | None" = None
    number: int = -1
    is_idle: bool = False


@dataclass(eq=False)
class _Value:
    """A value: a row of `VALUE` in the making.

    Attributes:
      time: when it is defined.
      written: accesses that write it.
      by_loop: the loop that does, or -1.
      within: the use of the loop in whose body this value is, or None.
      enters: it is what that use brings into the body.
      uses: by instructions and loops, in order.
      returned: the time at which the program, a pass of the loop or a branch returns it; None if nothing does.
      becomes: the value that begins where a branch returns it; None if no branch does.
    """

    time: int
    written: list[int]
    by_loop: int = -1
    within: _Use | None = None
    enters: bool = False
    uses: list[_Use] = field(default_factory=list)
    returned: int | None = None
    becomes: "_Value | None" = None


class Rows:
    """The accesses of every buffer, split into values and uses; the same under all options.

    Attributes:
      spans: `[N, 2]` first value of each buffer, and the value after its last.
      moments: `[N, 2]` the same of its moments.
      value, use, moment: as in `Problem`; copy `use` before changing it.
      accesses: the links back.
    """

    def __init__(self, program: Program, target: Target, times: Times, loops: LoopTimes) -> None:
        self._values: list[tuple[int, ...]] = []
        self._uses: list[tuple[float, ...]] = []
        self._value_access: list[int] = []
        self._links: list[tuple[int, int]] = []
        self._by_loops: list[tuple[int, int, int]] = []
        self._use_of: dict[int, int] = {}
        # When loops end, by the uses of values that enter them: XLA keeps a value in mind until then.
        self._left: dict[int, int] = {}
        self._children: dict[int, NDArray[np.int64]] = {}
        self.spans = np.zeros((program.num_buffers, 2), np.int64)
        self._program, self._end, self._loops = program, times.end, loops
        self._kinds = program.loop_kinds
        facts = assignment_facts(program)
        self._loop_bytes = {} if facts is None else facts.loop_bytes
        self._at = program.schedule_index.astype(np.int64)
        self._saved = gains(program, target)
        of_buffer: list[list[int]] = [[] for _ in range(program.num_buffers)]
        for access, buffer in enumerate(program.access_buffer.tolist()):
            of_buffer[buffer].append(access)
        for buffer, accesses in enumerate(of_buffer):
            self.spans[buffer, 0] = len(self._values)
            self._buffer(buffer, self._touches(buffer, accesses), int(times.inputs[buffer]))
            self.spans[buffer, 1] = len(self._values)
        self.value = np.array(self._values, VALUE)
        self.use = np.array(self._uses, USE)
        self.moments, self.moment = self._moments(facts)
        links = np.array(self._links, np.int64).reshape(-1, 2)
        by_loops = np.array(self._by_loops, np.int64).reshape(-1, 3)
        self.accesses = Accesses(links, np.array(self._value_access, np.int64), by_loops)

    def _moments(self, facts: AssignmentFacts | None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns `[N, 2]` first and end of each buffer's moments, and the moments."""
        time = self.use["time"].copy()
        for use, left in self._left.items():
            time[use] = left
        buffers = np.repeat(self.value["buffer"], self.value["end_use"] - self.value["first_use"])
        if facts is not None:
            time, buffers = np.append(time, facts.views[:, 1]), np.append(buffers, facts.views[:, 0])
        order = np.lexsort((time, buffers))
        numbers = np.arange(self._program.num_buffers)
        first, end = (np.searchsorted(buffers[order], numbers, side) for side in ("left", "right"))
        return np.column_stack([first, end]).astype(np.int64), time[order]

    def _held_since(self, access: int) -> int:
        """Returns the use with which a collective took hold of what it lets go with an access, `WRITTEN`, or -1."""
        program = self._program
        since = -1 if program.held_since is None else int(program.held_since[access])
        if since < 0 or program.access_instruction[since] == program.access_instruction[access]:
            return -1
        return WRITTEN if program.access_kind[since] == RESULT else self._use_of[since]

    def _touches(self, buffer: int, accesses: list[int]) -> list[_Touch]:
        """Returns the touches in order: one per loop that the buffer outlives, else one per instruction."""
        program, around = self._program, -1
        lasts = program.definition[buffer] < 0 or bool(program.is_output[buffer])
        # Carried from one iteration to the next.
        lasts = lasts or bool(accesses and program.access_kind[accesses[0]] != RESULT)
        while not lasts:
            within = {int(self._child_of(around)[program.access_instruction[a]]) for a in accesses}
            if len(within) != 1 or -1 in within:
                break
            around = within.pop()
        return self._grouped(accesses, self._child_of(around))

    def _grouped(self, accesses: list[int], loop_of: NDArray[np.int64]) -> list[_Touch]:
        """Returns the touches of some accesses; `loop_of[T]` is the loop that touches as a whole, or -1."""
        program = self._program
        groups: dict[tuple[int, int], list[int]] = {}
        for access in accesses:
            t = int(program.access_instruction[access])
            loop = int(loop_of[t])
            groups.setdefault((1, loop) if loop >= 0 else (0, t), []).append(access)
        touches = []
        for (whole_loop, number), mine in groups.items():
            if whole_loop:
                time, latest = int(self._loops.arrives[number]), int(self._loops.begins[number]) - 1
            else:
                time = latest = int(self._at[number])
            written = [a for a in mine if program.access_kind[a] == RESULT]
            read = [a for a in mine if program.access_kind[a] != RESULT]
            touches.append(_Touch(time, latest, read, written, number if whole_loop else -1))
        return touches

    def _buffer(self, buffer: int, touches: list[_Touch], given: int) -> None:
        """Adds the values of a buffer, an input of which is defined at the time `given`."""
        program = self._program
        values = self._sequence(_Value(given, []) if program.definition[buffer] < 0 else None, touches)
        if values and program.is_output[buffer]:
            values[-1].returned = self._end
        self._add(buffer, [value for outer in values for value in (outer, *self._inside(outer))])

    def _sequence(self, value: _Value | None, touches: list[_Touch]) -> list[_Value]:
        """Returns the values that touches read and write one after the other; `value` is there before the first."""
        values = [] if value is None else [value]
        for touch in touches:
            following = None
            if touch.loop >= 0:
                following = _Value(int(self._loops.ends[touch.loop]), touch.writes, touch.loop)
            elif touch.writes:
                following = _Value(touch.time, touch.writes)
            if values and touch.loop >= 0 and self._is_conditional(touch.loop) and not touch.writes:
                # What branches only read is the same value behind them.
                values[-1].uses.append(_Use(touch, touch.reads))
                continue
            made = self._of_branches(touch, following)
            if made:
                values += made
            elif not values:
                if following is None:
                    continue
                if touch.loop >= 0:
                    break
            # A loop that writes a buffer also carries its former value.
            elif touch.loop >= 0:
                values[-1].uses.append(_Use(touch, touch.reads + touch.writes, following))
            else:
                values[-1].uses += [_Use(touch, [read], following) for read in touch.reads]
            if following is not None:
                values.append(following)
        return values

    def _of_branches(self, touch: _Touch, result: _Value | None) -> list[_Value]:
        """Returns the values that a conditional's branches make of a buffer; none where one may read the former value.

        All are returned where the conditional's own `result` begins.
        """
        program = self._program
        if touch.loop < 0 or result is None or not self._is_conditional(touch.loop):
            return []
        branches = self._grouped(sorted(touch.reads + touch.writes), self._child_of(touch.loop))
        if len(branches) < (program.loop_parent == touch.loop).sum():
            return []
        values: list[_Value] = []
        for branch in branches:
            accesses = sorted(branch.reads + branch.writes)
            if branch.loop < 0 or program.access_kind[accesses[0]] != RESULT:
                return []
            inner = self._sequence(None, self._grouped(accesses, self._child_of(branch.loop)))
            if not inner:
                return []
            inner[-1].returned, inner[-1].becomes = int(self._loops.returns[branch.loop]), result
            values += inner
        return values

    def _inside(self, outer: _Value) -> list[_Value]:
        """Returns the values within the loops that use a value, inner loops included."""
        found: list[_Value] = []
        for use in outer.uses:
            for loop, accesses in self._bodies(use):
                touches = self._grouped(accesses, self._child_of(loop))
                values = self._sequence(_Value(int(self._loops.enters[loop]), [], enters=True), touches)
                use.is_idle = self._kinds[loop] == "loop" and not values[0].uses
                for value in values:
                    value.within = use
                if use.following is not None or not self._is_conditional(use.touch.loop):
                    values[-1].returned = int(self._loops.returns[loop])
                found += [value for inner in values for value in (inner, *self._inside(inner))]
        return found

    def _bodies(self, use: _Use) -> Iterator[tuple[int, list[int]]]:
        """Yields the loops that a use takes a value into, and the accesses in each: one, or branches that read it."""
        loop = use.touch.loop
        if loop >= 0 and self._is_conditional(loop) and use.following is None:
            for branch in self._grouped(sorted(use.accesses), self._child_of(loop)):
                yield branch.loop, sorted(branch.reads + branch.writes)
        elif loop >= 0:
            yield loop, sorted(use.accesses)

    def _is_conditional(self, loop: int) -> bool:
        return self._program.conditional is not None and bool(self._program.conditional[loop])

    def _writes(self, use: _Use) -> bool:
        """Returns whether a loop writes the value that it uses."""
        return any(self._program.access_kind[access] == RESULT for access in use.accesses)

    def _child_of(self, loop: int) -> NDArray[np.int64]:
        """Returns `[T]` the loop directly within a loop (-1: the program) that holds each instruction, or -1."""
        if loop not in self._children:
            self._children[loop] = self._find_children(loop)
        return self._children[loop]

    def _find_children(self, loop: int) -> NDArray[np.int64]:
        parent = self._program.loop_parent
        child = np.full(len(parent) + 1, -1, np.int64)
        for inner in range(len(parent)):
            at = inner
            while at >= 0 and parent[at] != loop:
                at = int(parent[at])
            child[inner] = at
        return child[self._program.loop]

    def _add(self, buffer: int, values: list[_Value]) -> None:
        """Adds the rows of values and their uses."""
        program = self._program
        numbers = {id(value): len(self._values) + place for place, value in enumerate(values)}
        for value in values:
            first = len(self._uses)
            for use in value.uses:
                touch, whole_loop = use.touch, use.touch.loop >= 0
                use.number = len(self._uses)
                moved = int(sum(program.access_bytes[a] for a in use.accesses))
                held_since = -1 if whole_loop else self._held_since(use.accesses[0])
                self._use_of.update((a, use.number) for a in use.accesses)
                if not whole_loop:
                    self._links += [(use.number, a) for a in use.accesses]
                gain = 0.0 if whole_loop else self._saved[use.accesses[0]]
                next_value = -1 if use.following is None else numbers[id(use.following)]
                entered, first_use, resumes = -1, -1, touch.time
                if whole_loop:
                    moved, self._left[use.number] = 0, int(self._loops.ends[touch.loop])
                    # Of branches, the one that uses it soonest.
                    entered, first_use = min(
                        (
                            (int(self._loops.enters[body]), int(self._at[program.access_instruction[min(accesses)]]))
                            for body, accesses in self._bodies(use)
                        ),
                        key=lambda times: times[1] - times[0],
                    )
                    if use.following is None:
                        resumes = int(self._loops.ends[touch.loop])
                allowed = not use.is_idle if whole_loop else program.access_allowed[use.accesses].all()
                needs = ANYWHERE if allowed else IN_HBM
                fixed = touch.latest, moved, next_value, needs, M_FREE, held_since, gain
                is_loop = whole_loop and self._kinds[touch.loop] == "loop"
                if is_loop:
                    self._by_loops.append((use.number, touch.loop, buffer))
                unchanged, more = is_loop and not self._writes(use), MORE_FOR_LOOPS * is_loop
                self._uses.append((touch.time, *fixed, entered, first_use, int(unchanged), more, resumes))
            end = value.returned
            if end is not None and value.becomes is not None:
                end = max(end, value.time)
                becomes = numbers[id(value.becomes)]
                self._uses.append((end, end, 0, becomes, ANYWHERE, M_FREE, -1, 0.0, -1, -1, 0, 0, end))
            elif end is not None and value.time < end:
                needs = IN_HBM if value.within is None else AS_ENTERED
                self._uses.append((end, end, 0, -1, needs, M_FREE, -1, 0.0, -1, -1, 0, 0, end))
            at_end = end is not None and value.time >= end and value.within is None and value.becomes is None
            at_start = at_end or not program.access_allowed[value.written].all()
            if not value.written and not value.enters and value.by_loop < 0:
                at_start = True
            if value.by_loop >= 0:
                moved = self._loop_bytes.get((value.by_loop, buffer), 0)
            else:
                moved = int(program.access_bytes[value.written[0]]) if value.written else 0
            within = -1 if value.within is None else value.within.number
            self._values.append(
                (buffer, value.time, first, len(self._uses), int(at_start), moved, within, int(value.enters))
            )
            self._value_access.append(value.written[0] if value.written and value.by_loop < 0 else -1)
