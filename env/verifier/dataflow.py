"""The verifier's second half: follows the value of every buffer through HBM and fast memory.

Buffers are independent of each other but for their places in fast memory, so each is walked alone, in program order:
accesses read and write, copies read when they are issued and write when they are done. What is tracked is only
whether a place holds the current value, per byte segment between the cuts that residencies and copies make. A loop's
body is walked until what holds at its start holds at its end too.
"""

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..program.mapping import CROSS_PROGRAM, PREFETCH, WRITE_BACK
from ..program.program import OPERAND, REPLACEABLE_OPCODES, Program, replaced_pair
from .violation import DIRECTION_NAMES, Kind, Report


class _Stale(NamedTuple):
    """Why a place does not hold the value. `loop`: only from the second iteration of that loop on."""

    text: str
    instruction: int = -1
    loop: int = -1


_NEVER_WRITTEN = _Stale("nothing has written it")
_NEVER_FILLED = _Stale("no complete prefetch and no result has filled it")
_LOOP_END = "its residency does not last from one iteration to the next"


class _Interval(NamedTuple):
    """A byte segment of a buffer, resident without a break over instructions `first..last` at one offset."""

    offset: int
    segment: int
    first: int
    last: int


class _Copy(NamedTuple):
    """A row of `Mapping.copies` with its row number."""

    buffer: int
    direction: int
    start: int
    end: int
    low: int
    high: int
    source: int
    replaces: int
    number: int


class _Access(NamedTuple):
    """All accesses of one instruction to one buffer; `operands` and `results` say of each whether it is fast."""

    instruction: int
    operands: list[bool]
    results: list[bool]


# What an event does. Copies are issued before others are done in the same gap between two instructions.
_ISSUE, _DONE, _ACCESS, _SOURCE_ISSUE, _SOURCE_DONE = range(5)


class _Event(NamedTuple):
    """`key` orders events: `2 t + 1` is instruction `t`, `2 t + 2` the gap after it. `loop` is the innermost."""

    key: int
    late: int
    number: int
    loop: int
    action: int
    what: _Access | _Copy


@dataclass
class _State:
    """What holds the current value: None, or why it does not. `hbm` per segment, `fast` per interval."""

    hbm: list[_Stale | None]
    fast: list[_Stale | None]
    version: int  # counts the writes, so that a copy can see that one came between
    writer: int
    pending: dict[int, int]  # copy -> version when it was issued
    replaced: frozenset[int]  # instructions of which a replacing copy has been issued

    def copy(self) -> "_State":
        return _State(list(self.hbm), list(self.fast), self.version, self.writer, dict(self.pending), self.replaced)


def check_contents(
    program: Program,
    access_fast: NDArray[np.bool_],
    residencies: NDArray[np.int64],
    copies: NDArray[np.int64],
    report: Report,
) -> None:
    """Reports every access, copy and program output that does not find the value it needs.

    Args:
      program: the program.
      access_fast: `[A]`.
      residencies: `[R, 7]`, rows of `Mapping.residencies` and their numbers, all in range.
      copies: `[C, 9]`, rows of `Mapping.copies` and their numbers, all in range.
      report: takes the violations.
    """
    loops = _Loops(program)
    rows_of: dict[int, list[list[int]]] = defaultdict(list)
    for row in residencies.tolist():
        rows_of[row[0]].append(row)
    copies_of: dict[int, list[_Copy]] = defaultdict(list)
    read_by: dict[int, list[_Copy]] = defaultdict(list)
    exempt: set[tuple[int, int]] = set()
    accesses_of = _accesses(program, access_fast)
    for row in copies.tolist():
        copy = _Copy(*row)
        if not _is_whole(copy, report):
            continue
        copies_of[copy.buffer].append(copy)
        if copy.replaces >= 0:
            _check_replaces(program, copy, accesses_of, report)
            read_by[copy.source].append(copy)
            exempt |= {(copy.replaces, copy.buffer), (copy.replaces, copy.source)}
    for buffer in range(program.num_buffers):
        moved = copies_of[buffer] or read_by[buffer]
        if not moved and _is_plain(program, buffer, accesses_of[buffer], rows_of[buffer]):
            continue
        accesses = [a for a in accesses_of[buffer] if (a.instruction, buffer) not in exempt]
        walk = _Walk(program, loops, buffer, rows_of[buffer], copies_of[buffer], report)
        walk.run(accesses, read_by[buffer])


def _accesses(program: Program, access_fast: NDArray[np.bool_]) -> list[list[_Access]]:
    """Returns, per buffer, its accesses by instruction."""
    found: list[list[_Access]] = [[] for _ in range(program.num_buffers)]
    columns = (program.access_instruction, program.access_buffer, program.access_kind, access_fast)
    for instruction, buffer, kind, fast in zip(*(column.tolist() for column in columns), strict=True):
        group = found[buffer]
        if not group or group[-1].instruction != instruction:
            group.append(_Access(instruction, [], []))
        (group[-1].operands if kind == OPERAND else group[-1].results).append(fast)
    return found


def _is_plain(program: Program, buffer: int, accesses: list[_Access], rows: list[list[int]]) -> bool:
    """Returns whether a buffer that no copy touches needs no walk: it is written before it is read, if it is no input,
    and stays in HBM; or it is written and read in one loop, or in none, and fast throughout in its one residency."""
    written = bool(accesses) and not accesses[0].operands
    if not rows:
        in_hbm = not any(True in access.operands or True in access.results for access in accesses)
        return in_hbm and (written or program.definition[buffer] < 0)
    _, first, last, _, low, high, _ = rows[0]
    loops = {program.loop[access.instruction] for access in accesses}
    if len(rows) > 1 or not written or len(loops) > 1 or program.is_output[buffer]:
        return False
    return (
        (low, high) == (0, program.size[buffer])
        and first <= accesses[0].instruction
        and accesses[-1].instruction <= last
        and not any(False in access.operands or False in access.results for access in accesses)
    )


def _is_whole(copy: _Copy, report: Report) -> bool:
    """Returns whether a copy is one within a buffer, or has all that one which replaces an instruction needs."""
    if (copy.replaces >= 0) == (copy.source != copy.buffer) and (copy.replaces < 0 or copy.direction == PREFETCH):
        return True
    message = f"copy {copy.number} from {report.buffer(copy.source)} to {report.buffer(copy.buffer)} "
    message += "must replace an instruction, read another buffer and be a prefetch: all three, or neither of the first."
    report.add(Kind.REPLACES, message, copy.start if copy.replaces < 0 else copy.replaces, copy.buffer)
    return False


def _check_replaces(program: Program, copy: _Copy, accesses_of: list[list[_Access]], report: Report) -> None:
    """A copy from another buffer must have the same effect as the synchronous copy instruction it replaces."""
    words = f"copy {copy.number} from {report.buffer(copy.source)} to {report.buffer(copy.buffer)}"
    target = copy.replaces
    if replaced_pair(program, target) != (copy.source, copy.buffer):
        if program.opcodes[target] not in REPLACEABLE_OPCODES:
            trouble = f"is a {program.opcodes[target]}, not one of {', '.join(REPLACEABLE_OPCODES)}"
        elif program.keeps_layout is not None and not program.keeps_layout[target]:
            trouble = "changes the layout"
        else:
            trouble = "does not copy all bytes of that one buffer to the other"
        trouble = f"replaces {report.instruction(target)}, which {trouble}"
        report.add(Kind.REPLACES, f"{words} {trouble}.", target, copy.buffer)
    for first, last in zip(program.loop_first.tolist(), program.loop_last.tolist(), strict=True):
        if (first <= target <= last) != (first <= copy.start and copy.end <= last):
            trouble = f"does not run in the same loop as {report.instruction(target)}, which it replaces"
            report.add(Kind.REPLACES, f"{words} {trouble}.", target, copy.buffer)
            break
    # Accesses while the copy is in flight find stale content or a race; those that change places with it are seen here.
    for buffer in (copy.source, copy.buffer):
        for access in accesses_of[buffer]:
            t = access.instruction
            if buffer == copy.source and not access.results:
                continue
            if (t < target and t >= copy.end) or (t > target and t <= copy.start):
                report.add(
                    Kind.REPLACES,
                    f"{words} is in flight from {copy.start} to {copy.end} and so changes places with "
                    f"{report.instruction(t)}, relative to {report.instruction(target)}, which it replaces.",
                    t,
                    buffer,
                )


class _Loops:
    """The loop nest: which loop an event is in."""

    def __init__(self, program: Program) -> None:
        self.parent = program.loop_parent.tolist()
        self.first = program.loop_first.tolist()
        self.last = program.loop_last.tolist()
        self.of_instruction = program.loop.tolist()
        around = [-1, *self.of_instruction, -1]
        self.of_gap = [self._common(a, b) for a, b in pairwise(around)]

    def _common(self, a: int, b: int) -> int:
        """Returns the innermost loop around both. A parent has a smaller number than its child."""
        while a != b:
            a, b = (self.parent[a], b) if a > b else (a, self.parent[b])
        return a

    def child(self, loop: int, inner: int) -> int:
        """Returns the loop directly inside `loop` that holds `inner`."""
        while self.parent[inner] != loop:
            inner = self.parent[inner]
        return inner


class _Walk:
    """Follows one buffer."""

    def __init__(
        self,
        program: Program,
        loops: _Loops,
        buffer: int,
        rows: list[list[int]],
        copies: list[_Copy],
        report: Report,
    ) -> None:
        self._program, self._loops, self._buffer, self._report = program, loops, buffer, report
        self._copies = copies
        self._found: list[tuple[Kind, str, int]] = []
        size = int(program.size[buffer])
        self._cuts = sorted(
            {0, size, *(c for r in rows for c in r[4:6]), *(c for x in copies for c in (x.low, x.high))}
        )
        self._segments = len(self._cuts) - 1
        self._intervals: list[_Interval] = []
        self._at: dict[int, list[list[int]]] = {}  # offset -> segment -> its intervals
        self._merge(rows)
        self._begins = {(r[3], r[1]) for r in rows}  # offset and first instruction of each residency
        self._targets = {copy.number: self._target(copy) for copy in copies if copy.direction != WRITE_BACK}

    # ---- where the buffer is resident -------------------------------------------------------------------------------

    def _range(self, low: int, high: int) -> range:
        return range(bisect_left(self._cuts, low), bisect_left(self._cuts, high))

    def _merge(self, rows: list[list[int]]) -> None:
        """Joins residencies of the same bytes at the same offset that follow each other without a break."""
        spans: dict[tuple[int, int], list[list[int]]] = defaultdict(list)
        for _, start, end, offset, low, high, _ in sorted(rows, key=lambda row: row[1]):
            for segment in self._range(low, high):
                known = spans[offset, segment]
                if known and start <= known[-1][1] + 1:
                    known[-1][1] = max(known[-1][1], end)
                else:
                    known.append([start, end])
        for (offset, segment), known in spans.items():
            groups = self._at.setdefault(offset, [[] for _ in range(self._segments)])
            for first, last in known:
                groups[segment].append(len(self._intervals))
                self._intervals.append(_Interval(offset, segment, first, last))

    def _covering(self, first: int, last: int, segments: range) -> list[list[int]]:
        """Returns, for each offset where all `segments` stay over `first..last`, one interval per segment."""
        found = []
        for groups in self._at.values():
            chosen = []
            for segment in segments:
                for index in groups[segment]:
                    interval = self._intervals[index]
                    if interval.first <= first and last <= interval.last:
                        chosen.append(index)
                        break
                else:
                    break
            else:
                found.append(chosen)
        return found

    def _target(self, copy: _Copy) -> list[int]:
        """Returns the intervals that a prefetch fills: where the buffer stays from `start + 1` through `end`.

        At several offsets it is the one where a residency begins right after the start.
        """
        last = min(copy.end, self._program.num_instructions - 1)
        found = self._covering(min(copy.start + 1, last), last, self._range(copy.low, copy.high))
        if len(found) > 1:
            begins = [c for c in found if (self._intervals[c[0]].offset, copy.start + 1) in self._begins]
            if len(begins) != 1:
                offsets = sorted(self._intervals[c[0]].offset for c in found)
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
            return [i for i, x in enumerate(self._intervals) if x.first <= last <= x.last]
        return found[0]

    # ---- the walk ---------------------------------------------------------------------------------------------------

    def run(self, accesses: list[_Access], read_by: list[_Copy]) -> None:
        """Walks the program; `read_by` are the copies into other buffers that read this one."""
        of_gap, of_instruction = self._loops.of_gap, self._loops.of_instruction
        events = [_Event(2 * a.instruction + 1, 0, 0, of_instruction[a.instruction], _ACCESS, a) for a in accesses]
        for copies, issue, done in ((self._copies, _ISSUE, _DONE), (read_by, _SOURCE_ISSUE, _SOURCE_DONE)):
            for c in copies:
                events.append(_Event(2 * c.start + 2, 0, c.number, of_gap[c.start + 1], issue, c))
                events.append(_Event(2 * c.end, 1, c.number, of_gap[c.end], done, c))
        events.sort(key=lambda event: event[:3])
        first = None if self._program.definition[self._buffer] < 0 else _NEVER_WRITTEN
        state = _State([first] * self._segments, [_NEVER_FILLED] * len(self._intervals), 0, -1, {}, frozenset())
        state = self._body(events, state, -1)
        for kind, message, instruction in self._found:
            self._report.add(kind, message, instruction, self._buffer)
        self._check_end(state)

    def _body(self, events: list[_Event], state: _State, loop: int) -> _State:
        """Walks events inside `loop` (-1: the program) and returns what holds after them."""
        index = 0
        while index < len(events):
            event = events[index]
            if event.loop == loop:
                self._apply(event, state)
                index += 1
                continue
            inner = self._loops.child(loop, event.loop)
            end = index
            while end < len(events) and events[end].key <= 2 * self._loops.last[inner] + 1:
                end += 1
            state = self._loop(events[index:end], state, inner)
            index = end
        return state

    def _loop(self, events: list[_Event], entry: _State, loop: int) -> _State:
        """Weakens what holds at the loop's start to what also holds at its end, and keeps the findings of that walk."""
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

    def _meet(self, entry: _State, end: _State, loop: int) -> _State:
        start = entry.copy()
        first, last = self._loops.first[loop], self._loops.last[loop]
        for segment, stale in enumerate(end.hbm):
            if start.hbm[segment] is None and stale is not None:
                start.hbm[segment] = stale._replace(loop=loop)
        for index, (stale, interval) in enumerate(zip(end.fast, self._intervals, strict=True)):
            if start.fast[index] is None and not (interval.first <= first and last <= interval.last):
                start.fast[index] = _Stale(_LOOP_END, loop=loop)
            elif start.fast[index] is None and stale is not None:
                start.fast[index] = stale._replace(loop=loop)
        return start

    def _apply(self, event: _Event, state: _State) -> None:
        what = event.what
        if isinstance(what, _Access):
            if what.operands:
                self._read(what, state)
            if what.results:
                self._write(what, state)
        elif event.action == _ISSUE:
            self._issue(what, state)
        elif event.action == _DONE:
            self._done(what, state)
        elif event.action == _SOURCE_ISSUE:
            words = f"{self._words(what)} is issued and reads {self._report.buffer(self._buffer)}"
            self._need_hbm(Kind.COPY_SOURCE, words, range(self._segments), what.start, state)
            state.pending[what.number] = state.version
        else:
            self._settle(what, state)

    # ---- accesses ---------------------------------------------------------------------------------------------------

    def _read(self, access: _Access, state: _State) -> None:
        t = access.instruction
        words = f"{self._report.instruction(t)} reads {self._report.buffer(self._buffer)}"
        if False in access.operands:
            self._need_hbm(Kind.HBM_CONTENT, f"{words} from HBM", range(self._segments), t, state)
        if True in access.operands:
            places = self._covering(t, t, range(self._segments))
            if not places:
                self._add(Kind.NO_RESIDENCY, f"{words} from fast memory, but {self._missing(t)}", t)
            else:
                self._need_fast(Kind.FAST_CONTENT, f"{words} from fast memory", places, t, state)

    def _write(self, access: _Access, state: _State) -> None:
        t = access.instruction
        words = f"{self._report.instruction(t)} writes {self._report.buffer(self._buffer)}"
        fast = True in access.results
        if len({*access.operands, *access.results}) > 1:
            self._add(Kind.IN_PLACE, f"{words}, not in the one memory in which it reads and writes it otherwise", t)
        state.version += 1
        state.writer = t
        if not fast:
            state.hbm = [None] * self._segments
            state.fast = [_Stale(f"{self._report.instruction(t)} wrote it in HBM", t)] * len(state.fast)
            return
        places = self._covering(t, t, range(self._segments))
        if len(places) == 1:
            elsewhere = _Stale(f"{self._report.instruction(t)} wrote it at another offset", t)
            state.hbm = [_Stale(f"{self._report.instruction(t)} wrote it in fast memory only", t)] * self._segments
            state.fast = [elsewhere] * len(state.fast)
            self._fill(places[0], state)
            return
        if places:
            offsets = sorted(self._intervals[place[0]].offset for place in places)
            self._add(Kind.AMBIGUOUS, f"{words} in fast memory, where it is resident at the offsets {offsets}", t)
        else:
            self._add(Kind.NO_RESIDENCY, f"{words} in fast memory, but {self._missing(t)}", t)
        state.hbm = [None] * self._segments
        state.fast = [None] * len(state.fast)

    # ---- copies -----------------------------------------------------------------------------------------------------

    def _issue(self, copy: _Copy, state: _State) -> None:
        segments = self._range(copy.low, copy.high)
        if copy.source != copy.buffer:
            if copy.replaces not in state.replaced:
                stale = _Stale(
                    f"the copy that replaces {self._report.instruction(copy.replaces)} is complete only before "
                    f"{self._report.instruction(copy.end)}",
                    copy.start,
                )
                state.hbm = [stale] * self._segments
                state.fast = [stale] * len(state.fast)
                state.version += 1
                state.writer = copy.replaces
                state.replaced |= {copy.replaces}
        elif copy.direction == WRITE_BACK:
            last = max(copy.start, copy.end - 1)
            places = self._covering(copy.start, last, segments)
            if places:
                self._need_fast(Kind.COPY_SOURCE, f"{self._words(copy)} is issued", places, copy.start, state)
            else:
                trouble = f"has no residency of bytes {copy.low}..{copy.high} to read over instructions"
                words = f"{self._words(copy)} {trouble} {copy.start}..{last}"
                self._add(Kind.COPY_RESIDENCY, words, copy.start)
        else:
            self._need_hbm(Kind.COPY_SOURCE, f"{self._words(copy)} is issued", segments, copy.start, state)
        state.pending[copy.number] = state.version

    def _done(self, copy: _Copy, state: _State) -> None:
        self._settle(copy, state)
        if copy.direction == WRITE_BACK:
            for segment in self._range(copy.low, copy.high):
                state.hbm[segment] = None
        else:
            self._fill(self._targets[copy.number], state)

    def _settle(self, copy: _Copy, state: _State) -> None:
        """Reports a write that came while the copy was in flight."""
        if state.pending.pop(copy.number, state.version) != state.version:
            message = f"{self._report.instruction(state.writer)} writes {self._report.buffer(self._buffer)} while "
            self._add(Kind.COPY_RACE, message + f"{self._words(copy)} is in flight", state.writer)

    def _check_end(self, state: _State) -> None:
        after = self._program.num_instructions
        if self._program.is_output[self._buffer]:
            stale = next((s for s in state.hbm if s is not None), None)
            if stale is not None:
                message = f"{self._report.buffer(self._buffer)} is a program output, but is not in HBM at the end: "
                place = stale.instruction if stale.instruction >= 0 else after - 1
                self._report.add(Kind.OUTPUT, f"{message}{stale.text}.", place, self._buffer)
        for copy in self._copies:
            target = self._targets.get(copy.number)
            if copy.direction != CROSS_PROGRAM or not target:
                continue
            offset = self._intervals[target[0]].offset
            places = self._covering(after - 1, after - 1, self._range(copy.low, copy.high))
            again = [p for p in places if self._intervals[p[0]].offset == offset]
            if not again or any(state.fast[index] is not None for index in again[0]):
                message = f"{self._words(copy)} needs the buffer at offset {offset} when the program ends"
                self._report.add(Kind.CROSS_PROGRAM, f"{message}, and it is not there.", after - 1, self._buffer)

    # ---- words and needs --------------------------------------------------------------------------------------------

    def _need_hbm(self, kind: Kind, words: str, segments: range, t: int, state: _State) -> None:
        for segment in segments:
            stale = state.hbm[segment]
            if stale is not None:
                self._add_stale(kind, f"{words}, but the copy in HBM", stale, t)
                for repaired in segments:
                    state.hbm[repaired] = None
                return

    def _need_fast(self, kind: Kind, words: str, places: list[list[int]], t: int, state: _State) -> None:
        """One of the `places` must hold the value."""
        if any(all(state.fast[index] is None for index in place) for place in places):
            return
        stale = next(state.fast[index] for index in places[0] if state.fast[index] is not None)
        assert stale is not None
        self._add_stale(kind, f"{words}, but the residency", stale, t)
        self._fill(places[0], state)

    def _fill(self, intervals: list[int], state: _State) -> None:
        for index in intervals:
            state.fast[index] = None

    def _missing(self, t: int) -> str:
        low, high = 0, int(self._program.size[self._buffer])
        partly = any(x.first <= t <= x.last for x in self._intervals)
        how = "only a part" if partly else "nothing"
        return f"{how} of its bytes {low}..{high} is resident at any one offset then"

    def _words(self, copy: _Copy) -> str:
        name = DIRECTION_NAMES[copy.direction]
        return f"copy {copy.number} (a {name} of {self._report.buffer(copy.buffer)} from {copy.start} to {copy.end})"

    def _add(self, kind: Kind, message: str, t: int) -> None:
        self._found.append((kind, f"{message}.", t))

    def _add_stale(self, kind: Kind, message: str, stale: _Stale, t: int) -> None:
        if stale.loop >= 0:
            again = f" after the first iteration of loop {stale.loop}"
            self._add(Kind.LOOP_CONTENT, f"{message} does not hold its value{again}: {stale.text}", t)
        else:
            self._add(kind, f"{message} does not hold its value: {stale.text}", t)
