"""Walks one buffer through a program and follows its value through HBM and fast memory.

Events come in program order: accesses read and write, copies read when they are issued and write when they are
complete. The state says only whether a place holds the current value, per byte segment. The body of a loop is walked
until the state at its start also holds at its end. Each branch of a conditional is walked from the state before all of
them, and what holds after the conditional is what holds after every branch.
"""

from collections.abc import Callable, Sequence

from ..program.mapping import CROSS_PROGRAM, WRITE_BACK
from ..program.program import Program
from .events import Access, Action, Copy, Event, LoopNest, events_of
from .holds import Hold
from .resident_intervals import ResidentIntervals
from .value_state import NEVER_FILLED, NEVER_WRITTEN, Stale, State
from .violation import Kind, Report

_NOT_TAKEN = "its residency does not last from before the conditional to the branch"
_NOT_LEFT = "not every branch of a conditional leaves it there"
_LOOP_END = "its residency does not last from one iteration to the next"


class BufferWalk:
    """Follows the value of one buffer and reports every access and copy that does not find it."""

    def __init__(
        self,
        program: Program,
        loops: LoopNest,
        buffer: int,
        rows: list[list[int]],
        copies: list[Copy],
        report: Report,
        holds: Sequence[Hold] = (),
    ) -> None:
        self._holds = holds
        self._program, self._loops, self._buffer, self._report = program, loops, buffer, report
        self._copies, self._end = copies, program.num_instructions
        self._found: list[tuple[Kind, str, int]] = []
        self._resident = ResidentIntervals(int(program.size[buffer]), rows, copies)
        self._segments = range(self._resident.segments)
        prefetches = [copy for copy in copies if copy.direction != WRITE_BACK]
        self._targets: dict[int, list[int]] = {}
        # The later a prefetch ends, the fewer residencies last until then: it chooses first.
        for copy in sorted(prefetches, key=lambda copy: -copy.end):
            self._targets[copy.number] = self._target(copy, prefetches)

    def _target(self, copy: Copy, prefetches: list[Copy]) -> list[int]:
        """Returns the intervals that a prefetch fills: those that last from `start + 1` through `end`.

        Of several offsets, it is the one at which a residency begins right after the start. Of several of these, each
        of the other `prefetches` of the same bytes that start with this one fills one.
        """
        last = min(copy.end, self._end - 1)
        if self._loops.ended_by(copy.start, copy.end) >= 0:
            last = copy.end - 1
        found = self._resident.covering(
            min(copy.start + 1, last), last, self._resident.segments_of(copy.low, copy.high)
        )
        if len(found) > 1:
            others = [other for other in prefetches if _alike(copy, other) and other.number != copy.number]
            begins = [c for c in found if (self._resident.offset(c), copy.start + 1) in self._resident.begins]
            filled = [self._targets[other.number] for other in others if other.number in self._targets]
            begins = [c for c in begins if c not in filled] or begins
            if len(begins) != 1 and len(begins) != 1 + len(others) - len(filled):
                offsets = sorted(self._resident.offset(c) for c in found)
                self._report.add(
                    Kind.AMBIGUOUS,
                    f"{self._words(copy)} could fill {self._report.buffer(self._buffer)} at any of the offsets "
                    f"{offsets}.",
                    copy.start,
                    self._buffer,
                )
            found = begins or found
        if not found:
            self._report.add(
                Kind.COPY_RESIDENCY,
                f"{self._words(copy)} has no residency of bytes {copy.low}..{copy.high} to fill over instructions "
                f"{copy.start + 1}..{last}.",
                copy.start,
                self._buffer,
            )
            return [i for i, x in enumerate(self._resident.intervals) if x.first <= last <= x.last]
        return found[0]

    # ---- the walk ---------------------------------------------------------------------------------------------------

    def run(self, accesses: list[Access], read_by: list[Copy]) -> None:
        """Walks the program.

        Args:
          accesses: accesses of the buffer in program order, without those of replaced instructions.
          read_by: copies into other buffers that read this one.
        """
        events = events_of(accesses, self._copies, read_by, self._loops)
        first = None if self._program.definition[self._buffer] < 0 else NEVER_WRITTEN
        state = State(
            [first] * len(self._segments), [NEVER_FILLED] * len(self._resident.intervals), 0, -1, {}, frozenset()
        )
        state = self._body(events, state, -1)
        for kind, message, instruction in self._found:
            self._report.add(kind, message, instruction, self._buffer)
        self._check_end(state)

    def _body(self, events: list[Event], state: State, loop: int) -> State:
        """Walks events inside `loop` (-1: the program) and returns the state after them."""
        index = 0
        while index < len(events):
            event = events[index]
            if event.loop == loop:
                self._apply(event, state)
                index += 1
                continue
            inner = self._loops.child(loop, event.loop)
            end = index
            while end < len(events) and self._loops.is_within(events[end].loop, inner):
                end += 1
            walk = self._conditional if inner in self._loops.branches else self._loop
            state = walk(events[index:end], state, inner)
            index = end
        return state

    def _loop(self, events: list[Event], entry: State, loop: int) -> State:
        """Walks a loop and returns the state after it.

        A place that is current at the loop's start but not at its end counts as stale at the start, and the body is
        walked again, until nothing changes. Only the findings of the last walk are kept.
        """
        found = self._found
        while True:
            self._found = []
            end = self._body(events, entry.copy(), loop)
            start = self._meet(entry, end, loop)
            if start.hbm == entry.hbm and start.fast == entry.fast:
                break
            entry = start
        self._found = found + self._found
        return end

    def _conditional(self, events: list[Event], entry: State, loop: int) -> State:
        """Walks the branches of a conditional; returns the state in which a place is current if it is after each."""
        ends = []
        for branch in self._loops.branches[loop]:
            inside = [event for event in events if self._loops.is_within(event.loop, branch)]
            ends.append(self._body(inside, self._taken(entry, loop, branch), branch))
        left = max(ends, key=lambda end: end.version).copy()
        left.replaced = frozenset().union(*(end.replaced for end in ends))
        for segment in self._segments:
            left.hbm[segment] = next((end.hbm[segment] for end in ends if end.hbm[segment] is not None), None)
        for index, interval in enumerate(self._resident.intervals):
            if not interval.first <= self._loops.last[loop] <= interval.last:
                continue
            for branch, end in zip(self._loops.branches[loop], ends, strict=True):
                place = self._resident.at(interval.offset, interval.segment, self._loops.last[branch])
                left.fast[index] = Stale(_NOT_LEFT) if place < 0 else end.fast[place]
                if left.fast[index] is not None:
                    break
        return left

    def _taken(self, entry: State, loop: int, branch: int) -> State:
        """Returns the state at the start of a branch: that before the conditional, whatever other branches did."""
        start = entry.copy()
        first, opening = self._loops.first[branch], self._loops.first[loop]
        for index, interval in enumerate(self._resident.intervals):
            start.fast[index] = Stale(_NOT_TAKEN)
            if interval.first <= first <= interval.last:
                place = self._resident.at(interval.offset, interval.segment, opening - 1)
                if place < 0:  # A prefetch that is due right before the conditional fills what begins with it.
                    place = self._resident.at(interval.offset, interval.segment, opening)
                if place >= 0:
                    start.fast[index] = entry.fast[place]
        return start

    def _meet(self, entry: State, end: State, loop: int) -> State:
        """Returns the state in which a place is current if it is so both at `entry` and at the loop's end.

        Bytes stay from the end of the body to its start where they are resident at the same offset at both.
        """
        start = entry.copy()
        first, last = self._loops.first[loop], self._loops.last[loop]
        for segment, stale in enumerate(end.hbm):
            if start.hbm[segment] is None and stale is not None:
                start.hbm[segment] = stale._replace(loop=loop)
        for index, interval in enumerate(self._resident.intervals):
            if start.fast[index] is not None:
                continue
            before = self._resident.at(interval.offset, interval.segment, last)
            if before < 0 or not interval.first <= first <= interval.last:
                start.fast[index] = Stale(_LOOP_END, loop=loop)
                continue
            stale = end.fast[before]
            if stale is not None:
                start.fast[index] = stale._replace(loop=loop)
        return start

    def _apply(self, event: Event, state: State) -> None:
        cause = event.cause
        if isinstance(cause, Access):
            if cause.operands:
                self._read(cause, state)
            if cause.results:
                self._write(cause, state)
        elif event.action is Action.ISSUE:
            self._issue(cause, state)
        elif event.action is Action.DONE:
            self._done(cause, state)
        elif event.action is Action.SOURCE_ISSUE:
            self._need_hbm(
                Kind.COPY_SOURCE,
                lambda: f"{self._words(cause)} is issued and reads {self._report.buffer(self._buffer)}",
                self._segments,
                cause.start,
                state,
            )
            self._check_written(cause)
            state.pending[cause.number] = state.version
        else:
            self._settle(cause, state)

    # ---- accesses ---------------------------------------------------------------------------------------------------

    def _read(self, access: Access, state: State) -> None:
        t = access.instruction

        def words(memory: str) -> str:
            return f"{self._report.instruction(t)} reads {self._report.buffer(self._buffer)} from {memory}"

        if False in access.operands:
            self._need_hbm(Kind.HBM_CONTENT, lambda: words("HBM"), self._segments, t, state)
        if True in access.operands:
            places = self._resident.covering(t, t, self._segments)
            if not places:
                self._add(Kind.NO_RESIDENCY, f"{words('fast memory')}, but {self._missing(t)}", t)
            else:
                places = self._still(t, False, places)
                self._need_fast(Kind.FAST_CONTENT, lambda: words("fast memory"), places, t, state)

    def _write(self, access: Access, state: State) -> None:
        t = access.instruction

        def words() -> str:
            return f"{self._report.instruction(t)} writes {self._report.buffer(self._buffer)}"

        fast = True in access.results
        if (not fast) in access.operands or (fast and False in access.results):
            self._add(Kind.IN_PLACE, f"{words()}, not in the one memory in which it reads and writes it otherwise", t)
        state.version += 1
        state.writer = t
        if not fast:
            state.hbm = [None] * len(self._segments)
            state.fast = [Stale("wrote it in HBM", t, subject=t)] * len(state.fast)
            return
        places = self._resident.covering(t, t, self._segments)
        if len(places) == 1:
            state.hbm = [Stale("wrote it in fast memory only", t, subject=t)] * len(self._segments)
            state.fast = [Stale("wrote it at another offset", t, subject=t)] * len(state.fast)
            self._fill(places[0], state)
            self._still(t, True, places)
            return
        if places:
            offsets = sorted(self._resident.offset(place) for place in places)
            self._add(Kind.AMBIGUOUS, f"{words()} in fast memory, where it is resident at the offsets {offsets}", t)
        else:
            self._add(Kind.NO_RESIDENCY, f"{words()} in fast memory, but {self._missing(t)}", t)
        state.hbm = [None] * len(self._segments)
        state.fast = [None] * len(state.fast)

    def _still(self, t: int, writes: bool, places: list[list[int]]) -> list[list[int]]:
        """Returns those of some places that last as long as a collective that takes hold of the buffer at `t`."""
        if not self._holds:
            return places
        last = max((hold.last for hold in self._holds if hold.first == t and hold.writes == writes), default=t)
        lasting = self._resident.covering(t, last, self._segments)
        still = [place for place in places if place in lasting]
        if still:
            return still
        words = f"{self._report.buffer(self._buffer)} does not stay at one offset while a collective runs, from"
        self._add(Kind.HELD, f"{words} {self._report.instruction(t)} to {self._report.instruction(last)}", last)
        return places

    def _check_written(self, copy: Copy) -> None:
        """Reports a copy of a value that a running collective has not written yet."""
        for hold in self._holds:
            if hold.writes and hold.first <= copy.start < hold.last:
                message = f"{self._words(copy)} takes a value that a collective writes until"
                self._add(Kind.HELD, f"{message} {self._report.instruction(hold.last)}", copy.start)

    # ---- copies -----------------------------------------------------------------------------------------------------

    def _issue(self, copy: Copy, state: State) -> None:
        segments = self._resident.segments_of(copy.low, copy.high)
        self._check_written(copy)
        if copy.source != copy.buffer:
            if copy.replaces not in state.replaced:
                stale = Stale(
                    f"the copy that replaces {self._report.instruction(copy.replaces)} is complete only before "
                    f"{self._report.instruction(copy.end)}",
                    copy.start,
                )
                state.hbm = [stale] * len(self._segments)
                state.fast = [stale] * len(state.fast)
                state.version += 1
                state.writer = copy.replaces
                state.replaced |= {copy.replaces}
        elif copy.direction == WRITE_BACK:
            last = max(copy.start, copy.end - 1)
            places = self._resident.covering(copy.start, last, segments)
            if places:
                self._need_fast(Kind.COPY_SOURCE, lambda: f"{self._words(copy)} is issued", places, copy.start, state)
            else:
                trouble = f"has no residency of bytes {copy.low}..{copy.high} to read over instructions"
                words = f"{self._words(copy)} {trouble} {copy.start}..{last}"
                self._add(Kind.COPY_RESIDENCY, words, copy.start)
        else:
            self._need_hbm(Kind.COPY_SOURCE, lambda: f"{self._words(copy)} is issued", segments, copy.start, state)
        state.pending[copy.number] = state.version

    def _done(self, copy: Copy, state: State) -> None:
        self._settle(copy, state)
        if copy.direction == WRITE_BACK:
            for segment in self._resident.segments_of(copy.low, copy.high):
                state.hbm[segment] = None
        else:
            self._fill(self._targets[copy.number], state)

    def _settle(self, copy: Copy, state: State) -> None:
        """Ends a copy's flight, and reports a write that came during it."""
        if state.pending.pop(copy.number, state.version) != state.version:
            message = f"{self._report.instruction(state.writer)} writes {self._report.buffer(self._buffer)} while "
            self._add(Kind.COPY_RACE, message + f"{self._words(copy)} is in flight", state.writer)

    def _check_end(self, state: State) -> None:
        """Checks that an output ends in HBM, and that the next execution finds its cross-program prefetches."""
        after = self._end
        if self._program.is_output[self._buffer]:
            stale = next((s for s in state.hbm if s is not None), None)
            if stale is not None:
                message = f"{self._report.buffer(self._buffer)} is a program output, but is not in HBM at the end: "
                place = stale.instruction if stale.instruction >= 0 else after - 1
                self._report.add(Kind.OUTPUT, f"{message}{stale.words(self._report)}.", place, self._buffer)
        for copy in self._copies:
            target = self._targets.get(copy.number)
            if copy.direction != CROSS_PROGRAM or not target:
                continue
            offset = self._resident.offset(target)
            places = self._resident.covering(after - 1, after - 1, self._resident.segments_of(copy.low, copy.high))
            again = [p for p in places if self._resident.offset(p) == offset]
            if not again or any(state.fast[index] is not None for index in again[0]):
                message = f"{self._words(copy)} needs the buffer at offset {offset} when the program ends"
                self._report.add(Kind.CROSS_PROGRAM, f"{message}, and it is not there.", after - 1, self._buffer)

    # ---- requirements and words --------------------------------------------------------------------------------------

    def _need_hbm(self, kind: Kind, words: Callable[[], str], segments: range, t: int, state: State) -> None:
        """Requires the value of HBM, and counts it as present from then on; `words` name what requires it."""
        for segment in segments:
            stale = state.hbm[segment]
            if stale is not None:
                self._add_stale(kind, f"{words()}, but the copy in HBM", stale, t)
                for repaired in segments:
                    state.hbm[repaired] = None
                return

    def _need_fast(self, kind: Kind, words: Callable[[], str], places: list[list[int]], t: int, state: State) -> None:
        """Requires the value of one of the `places`, and counts it as present from then on."""
        if any(all(state.fast[index] is None for index in place) for place in places):
            return
        stale = next(state.fast[index] for index in places[0] if state.fast[index] is not None)
        assert stale is not None
        self._add_stale(kind, f"{words()}, but the residency", stale, t)
        self._fill(places[0], state)

    def _fill(self, intervals: list[int], state: State) -> None:
        for index in intervals:
            state.fast[index] = None

    def _missing(self, t: int) -> str:
        low, high = 0, int(self._program.size[self._buffer])
        partly = any(x.first <= t <= x.last for x in self._resident.intervals)
        how = "only a part" if partly else "nothing"
        return f"{how} of its bytes {low}..{high} is resident at any one offset then"

    def _words(self, copy: Copy) -> str:
        return self._report.copy(copy.number, copy.direction, copy.buffer, copy.start, copy.end)

    def _add(self, kind: Kind, message: str, t: int) -> None:
        self._found.append((kind, f"{message}.", t))

    def _add_stale(self, kind: Kind, message: str, stale: Stale, t: int) -> None:
        reason = stale.words(self._report)
        if stale.loop >= 0:
            again = f" after the first iteration of loop {stale.loop}"
            self._add(Kind.LOOP_CONTENT, f"{message} does not hold its value{again}: {reason}", t)
        else:
            self._add(kind, f"{message} does not hold its value: {reason}", t)


def _alike(one: Copy, other: Copy) -> bool:
    """Returns whether two prefetches of a buffer start together and move the same bytes."""
    return (one.start, one.low, one.high) == (other.start, other.low, other.high)
