"""The tables of a `Problem`, built from a program, a target and options."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...env.compiled.struct import new_record
from ...env.program.program import RESULT, Program
from ...env.program.target import Target
from .cost_analysis import bandwidths, gains
from .module_facts import slice_sizes, typical_bytes
from .options import KEPT, Options
from .problem import BUFFER, LIMIT, M_FREE, NEVER, SCALE, USE, VALUE, WRITTEN, Accesses, Problem
from .schedule import Times, depth, schedule


def make_problem(program: Program, target: Target, options: Options) -> tuple[Problem, Accesses]:
    """Returns the tables of a program for compiled code, and the links from them back to its accesses."""
    times = schedule(program, target)
    nest = depth(program, times.loop)
    weight = np.float32(options.while_trips) ** np.arange(nest.max(initial=0) + 1).astype(np.float32)
    seconds = times.seconds.astype(np.float32) * weight[nest]
    elapsed = np.zeros(len(seconds) + 1, np.float32)
    np.cumsum(seconds, dtype=np.float32, out=elapsed[1:])
    bandwidth = options.copy_bandwidth_scale * bandwidths(target)[0]
    copy_s = program.size / bandwidth
    typical = typical_bytes(program) if options.typical_bytes is None else options.typical_bytes
    sizes = slice_sizes(program, options)
    rows = _rows(program, target)
    buffer = np.zeros(program.num_buffers, BUFFER)
    buffer["first_value"], buffer["end_value"] = rows.spans.T
    buffer["bytes"] = program.size
    buffer["copy"] = copy_s.astype(np.float32).astype(np.float64) * SCALE
    buffer["slices"] = [len(row) for row in sizes]
    buffer["first_slice"] = np.cumsum(buffer["slices"]) - buffer["slices"]
    buffer["typical_s"] = typical / bandwidth
    limit = new_record(
        LIMIT,
        fast_bytes=target.fast_bytes,
        alignment=target.alignment,
        prefetches=target.max_prefetches if options.max_prefetches is None else options.max_prefetches,
        write_backs=target.max_write_backs if options.max_write_backs is None else options.max_write_backs,
        retries=options.retries,
        repacks=options.repacks,
        slice_min_bytes=options.slice_min_bytes,
        end=times.end,
        last_instruction=program.schedule_index[-1],
        is_flat=not nest.any(),
        longest_s=target.fast_bytes / bandwidth * options.max_overlap,
        least_overlap=options.min_overlap,
        preferred_overlap=options.preferred_overlap,
        inefficient_ratio=options.inefficient_ratio,
    )
    reserved = np.zeros(len(nest), np.int64)
    reserved[program.schedule_index] = program.reserved
    problem = Problem(
        elapsed=elapsed,
        nest=nest,
        outside=_outside(nest),
        weight=weight,
        reserved=reserved,
        supply=(times.seconds.astype(np.float32).astype(np.float64) * SCALE).astype(np.int64),
        buffer=buffer,
        value=rows.value,
        use=rows.use.copy(),  # the loop optimiser writes its modes there
        preferred_time=np.full(len(rows.use), NEVER, np.int64),
        slice_bytes=np.array([size for row in sizes for size in row], np.int64),
        limit=limit,
    )
    return problem, rows.accesses


def _outside(nest: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns `[S]` the next time with fewer loops around it than each has, or `S` where none follows."""
    found = np.full(len(nest), len(nest), np.int64)
    times = np.arange(len(nest))
    for level in range(1, int(nest.max(initial=0)) + 1):
        below = np.flatnonzero(nest < level)
        at = times[nest == level]
        found[at] = np.append(below, len(nest))[np.searchsorted(below, at)]
    return found


@lru_cache(maxsize=KEPT)
def _rows(program: Program, target: Target) -> "_Rows":
    return _Rows(program, target, schedule(program, target))


class _Touch(NamedTuple):
    """All accesses to a buffer by one instruction, or by one loop.

    Attributes:
      start, end: times.
      latest: latest end of a prefetch for it.
      reads, writes: accesses.
      whole_loop: it is a loop.
    """

    start: int
    end: int
    latest: int
    reads: list[int]
    writes: list[int]
    whole_loop: bool


class _Rows:
    """The accesses of every buffer, split into values and uses; the same under all options.

    Attributes:
      spans: `[N, 2]` first value of each buffer, and the value after its last.
      value, use: as in `Problem`; copy `use` before changing it.
      accesses: the links back.
    """

    def __init__(self, program: Program, target: Target, times: Times) -> None:
        self._values: list[tuple[int, ...]] = []
        self._uses: list[tuple[float, ...]] = []
        self._value_access: list[int] = []
        self._links: list[tuple[int, int]] = []
        self._use_of: dict[int, int] = {}
        self.spans = np.zeros((program.num_buffers, 2), np.int64)
        self._program, self._end = program, times.end
        self._at = program.schedule_index.astype(np.int64)
        self._saved = gains(program, target)
        outer = np.arange(len(program.loop_parent) + 1)  # the outermost loop around each loop
        for loop, parent in enumerate(program.loop_parent):
            outer[loop] = outer[parent] if parent >= 0 else loop
        outer[-1] = -1
        self._outer = outer[program.loop]
        of_buffer: list[list[int]] = [[] for _ in range(program.num_buffers)]
        for access, buffer in enumerate(program.access_buffer.tolist()):
            of_buffer[buffer].append(access)
        for buffer, accesses in enumerate(of_buffer):
            self.spans[buffer, 0] = len(self._values)
            self._buffer(buffer, self._touches(buffer, accesses), int(times.inputs[buffer]))
            self.spans[buffer, 1] = len(self._values)
        self.value = np.array(self._values, VALUE)
        self.use = np.array(self._uses, USE)
        links = np.array(self._links, np.int64).reshape(-1, 2)
        self.accesses = Accesses(links, np.array(self._value_access, np.int64))

    def _held_since(self, access: int) -> int:
        """Returns the use with which a collective took hold of what it lets go with an access, `WRITTEN`, or -1."""
        program = self._program
        since = -1 if program.held_since is None else int(program.held_since[access])
        if since < 0 or program.access_instruction[since] == program.access_instruction[access]:
            return -1
        return WRITTEN if program.access_kind[since] == RESULT else self._use_of[since]

    def _touches(self, buffer: int, accesses: list[int]) -> list[_Touch]:
        """Returns the touches in order: one per loop if the buffer outlives loops, else one per instruction."""
        program = self._program
        loops = {int(self._outer[program.access_instruction[a]]) for a in accesses}
        lasts = len(loops) > 1 or program.definition[buffer] < 0 or bool(program.is_output[buffer])
        if accesses and not lasts:
            lasts = bool(program.access_kind[accesses[0]] != RESULT)  # carried from one iteration to the next
        groups: dict[tuple[int, int], list[int]] = {}
        for access in accesses:
            t = int(program.access_instruction[access])
            loop = int(self._outer[t])
            groups.setdefault((1, loop) if lasts and loop >= 0 else (0, t), []).append(access)
        touches = []
        for (whole_loop, number), mine in groups.items():
            first = last = number
            if whole_loop:
                first, last = int(program.loop_first[number]), int(program.loop_last[number])
            start, end = int(self._at[first]), int(self._at[last])
            written = [a for a in mine if program.access_kind[a] == RESULT]
            read = [a for a in mine if program.access_kind[a] != RESULT]
            touches.append(_Touch(start, end, start - whole_loop, read, written, bool(whole_loop)))
        return touches

    def _buffer(self, buffer: int, touches: list[_Touch], given: int) -> None:
        """Adds the values of a buffer, an input of which is defined at the time `given`."""
        program = self._program
        defined: tuple[int, list[int], bool] | None = None  # time, accesses that write it, whether by a loop
        if program.definition[buffer] < 0:
            defined = (given, [], False)
        pending: list[_Touch] = []
        for touch in touches:
            # A loop that writes a buffer also carries its former value.
            if touch.reads or touch.whole_loop:
                pending.append(touch)
            if touch.writes:
                self._close(buffer, defined, pending, touch)
                if touch.whole_loop and defined is None:
                    return
                defined, pending = (touch.end, touch.writes, touch.whole_loop), []
        self._close(buffer, defined, pending, None)

    def _close(
        self,
        buffer: int,
        value: tuple[int, list[int], bool] | None,
        touches: list[_Touch],
        following: _Touch | None,
    ) -> None:
        """Adds a value with its uses, `touches`; `following` is the touch that writes the next value, or None."""
        if value is None:
            return
        program = self._program
        time, written, by_loop = value
        first, number = len(self._uses), len(self._values)
        for touch in touches:
            goes_on = number + 1 if touch is following else -1
            groups = [touch.reads + touch.writes] if touch.whole_loop else [[read] for read in touch.reads]
            for group in groups:
                moved = int(sum(program.access_bytes[a] for a in group))
                held_since = -1 if touch.whole_loop else self._held_since(group[0])
                self._use_of.update((a, len(self._uses)) for a in group)
                self._links += [(len(self._uses), a) for a in group]
                gain = 0.0 if touch.whole_loop else self._saved[group[0]]
                self._uses.append((touch.end, touch.latest, moved, goes_on, 0, M_FREE, touch.start, held_since, gain))
        at_end = following is None and bool(program.is_output[buffer])
        if at_end and time < self._end:
            self._uses.append((self._end, self._end, 0, -1, 1, M_FREE, self._end, -1, 0.0))
        at_start = not written or (at_end and time >= self._end) or not program.access_allowed[written].all()
        moved = int(program.access_bytes[written[0]]) if written else 0
        self._values.append((buffer, time, first, len(self._uses), int(at_start), moved))
        self._value_access.append(written[0] if written and not by_loop else -1)
