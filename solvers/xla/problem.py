"""A program as XLA's assignment sees it: times of its schedule, values with their uses, sizes, seconds."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...env.program.program import RESULT, Program
from ...env.program.target import Target
from .geometry import born_fast, slice_sizes
from .options import KEPT, Options
from .rates import bandwidths, memory_s, moved_bytes
from .typical import typical_bytes

SCALE = 2**40  # of seconds, as integers: sums then do not depend on their order (XLA: `AsynchronousCopyResource`)
NEVER = np.iinfo(np.int32).min

# Columns of `Problem.limit`.
(
    L_FAST,
    L_ALIGN,
    L_PREFETCHES,
    L_WRITE_BACKS,
    L_RETRIES,
    L_REPACKS,
    L_END,
    L_FLAT,
    L_SLICE_MIN,
    L_LAST,
) = range(10)
# Columns of `Problem.ratio`.
R_LONGEST, R_MIN, R_PREFERRED, R_INEFFICIENT = range(4)
# Modes of a use, from the loop optimiser.
M_FREE, M_DEFAULT, M_KEEP = range(3)


class Problem(NamedTuple):
    """Shapes: `S` times, `N` buffers, `V` values, `U` uses. Values are sorted by buffer and definition, uses by value.

    A time is a place in the compiler's schedule, which also counts instructions that a program leaves out. A value is
    what one result writes into a buffer; a use reads it. The end of the program uses its outputs.

    Attributes:
      elapsed: `[S + 1]` seconds before each time, loops weighed (single precision, as XLA adds them up).
      nest: `[S]` loops around the time.
      weight: seconds of nested loops count so often, by depth.
      reserved: `[S]` bytes at offset 0 that the instruction keeps to itself.
      supply: `[S]` scaled seconds that copies of one direction may move in.
      buffer: `[N, 4]` first value, value after the last, size in bytes, scaled seconds of a copy.
      buffer_s: `[N]` seconds of a copy of typical size: by them its start is chosen.
      value: `[V, 7]` buffer, definition, first use, use after the last, whether it begins in HBM, bytes its definition
        writes, whether its definition is an instruction.
      use: `[U, 7]` time, latest end of a prefetch, bytes read, value that goes on in place or -1, whether it must be in
        HBM, mode, from when on it needs the buffer: a loop is one use of what it reads or carries.
      gain: `[U]` seconds that its instruction saves if it alone is fast.
      want: `[U]` preferred start of a prefetch, or `NEVER`.
      slices: `[N, M]` sizes of the slices of a prefetch, lowest bytes first; 0 beyond the last.
      limit, ratio: settings.
    """

    elapsed: NDArray[np.float32]
    nest: NDArray[np.int64]
    weight: NDArray[np.float32]
    reserved: NDArray[np.int64]
    supply: NDArray[np.int64]
    buffer: NDArray[np.int64]
    buffer_s: NDArray[np.float32]
    value: NDArray[np.int64]
    use: NDArray[np.int64]
    gain: NDArray[np.float32]
    want: NDArray[np.int64]
    slices: NDArray[np.int64]
    limit: NDArray[np.int64]
    ratio: NDArray[np.float32]


# Columns of `Problem.buffer`, `Problem.value`, `Problem.use`.
B_FIRST, B_LAST, B_SIZE, B_COPY = range(4)
V_BUFFER, V_TIME, V_FIRST, V_LAST, V_HBM, V_BYTES, V_WRITTEN = range(7)
U_TIME, U_LATEST, U_BYTES, U_NEXT, U_HBM, U_MODE, U_FROM = range(7)


class Accesses(NamedTuple):
    """The way back to the program. `links[K, 2]`: use, access that it stands for; `values[V]`: access or -1."""

    links: NDArray[np.int64]
    values: NDArray[np.int64]


class Times(NamedTuple):
    """Times of the schedule. `seconds[S]`, `loop[S]` innermost loop or -1, `inputs[N]` when an input is defined."""

    seconds: NDArray[np.float64]
    loop: NDArray[np.int64]
    inputs: NDArray[np.int64]
    end: int


def schedule(program: Program, target: Target) -> Times:
    """Returns the compiler's schedule, as far as a program knows it.

    Inputs come first. What stands between the program's instructions only renames; it takes `compiler["step_s"]`.
    """
    at = program.schedule_index.astype(np.int64)
    hbm = np.float32(bandwidths(target)[0])
    seconds = np.maximum(program.compute_s.astype(np.float32), moved_bytes(program)[1].astype(np.float32) / hbm)
    outputs = np.flatnonzero(program.is_output)
    last = program.num_instructions - 1
    results = program.access_buffer[program.access_start[last] :][
        program.access_kind[program.access_start[last] :] == RESULT
    ]
    alone = len(outputs) == 1 and outputs[0] in results
    end = int(at[-1]) if alone else int(at[-1]) + 1
    first = int(at[0])
    at_time = np.zeros(end + 1)
    at_time[first:] = float(program.compiler.get("step_s", 0.0) or 0.0)
    at_time[at] = seconds
    loop = np.full(end + 1, -1, np.int64)
    for index, (a, b) in enumerate(zip(program.loop_first, program.loop_last, strict=True)):
        loop[at[a] : at[b] + 1] = index
    inputs = np.full(program.num_buffers, -1, np.int64)
    given = np.flatnonzero(program.definition < 0)
    inputs[given] = np.minimum(np.arange(len(given)), first - 1)
    return Times(at_time, loop, inputs, end)


def depth(program: Program, loop: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns how many loops are around each time."""
    deep = np.zeros(len(program.loop_parent) + 1, np.int64)
    for index, parent in enumerate(program.loop_parent):
        deep[index] = deep[parent] + 1 if parent >= 0 else 1
    deep[-1] = 0
    return deep[loop]


def make_problem(program: Program, target: Target, options: Options) -> tuple[Problem, Accesses]:
    """Lays a program out for the compiled code."""
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
    buffer = np.zeros((program.num_buffers, 4), np.int64)
    buffer[:, :2] = rows.spans
    buffer[:, B_SIZE] = program.size
    buffer[:, B_COPY] = copy_s.astype(np.float32).astype(np.float64) * SCALE
    limit = np.zeros(10, np.int64)
    limit[[L_FAST, L_ALIGN]] = target.fast_bytes, target.alignment
    limit[L_PREFETCHES] = target.max_prefetches if options.max_prefetches is None else options.max_prefetches
    limit[L_WRITE_BACKS] = target.max_write_backs if options.max_write_backs is None else options.max_write_backs
    limit[[L_RETRIES, L_REPACKS, L_END]] = options.retries, options.repacks, times.end
    limit[L_FLAT] = not nest.any()
    limit[L_SLICE_MIN], limit[L_LAST] = options.slice_min_bytes, program.schedule_index[-1]
    longest = target.fast_bytes / bandwidth * options.max_overlap
    reserved = np.zeros(len(nest), np.int64)
    reserved[program.schedule_index] = program.reserved
    problem = Problem(
        elapsed=elapsed,
        nest=nest,
        weight=weight,
        reserved=reserved,
        supply=(times.seconds.astype(np.float32).astype(np.float64) * SCALE).astype(np.int64),
        buffer=buffer,
        buffer_s=np.full(program.num_buffers, typical / bandwidth, np.float32),
        value=rows.value,
        use=rows.use.copy(),  # the loop optimiser writes its modes there
        gain=rows.gain,
        want=np.full(len(rows.use), NEVER, np.int64),
        slices=sizes,
        limit=limit,
        ratio=np.array(
            [longest, options.min_overlap, options.preferred_overlap, options.inefficient_ratio], np.float32
        ),
    )
    return problem, rows.accesses


@lru_cache(maxsize=KEPT)
def _rows(program: Program, target: Target) -> "_Rows":
    return _Rows(program, target, schedule(program, target))


class _Touch(NamedTuple):
    """All accesses to a buffer by one instruction, or by one loop."""

    start: int
    end: int
    latest: int
    reads: list[int]
    writes: list[int]
    whole_loop: bool


class _Rows:
    """Splits the accesses of every buffer into values and uses, the same under all settings.

    Attributes:
      spans: `[N, 2]` first value of each buffer, and the one after its last.
      value, use, gain: as in `Problem`; of `use` a copy is to be taken.
      accesses: the way back.
    """

    def __init__(self, program: Program, target: Target, times: Times) -> None:
        self._values: list[tuple[int, ...]] = []
        self._uses: list[tuple[int, ...]] = []
        self._gains: list[float] = []
        self._value_access: list[int] = []
        self._links: list[tuple[int, int]] = []
        self.spans = np.zeros((program.num_buffers, 2), np.int64)
        self._program, self._end = program, times.end
        self._at = program.schedule_index.astype(np.int64)
        self._saved = gains(program, target)
        self._born_fast = born_fast(program)
        outer = np.arange(len(program.loop_parent) + 1)  # of every loop the outermost one around it
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
        self.value = np.array(self._values, np.int64).reshape(-1, 7)
        self.use = np.array(self._uses, np.int64).reshape(-1, 7)
        self.gain = np.array(self._gains, np.float32)
        links = np.array(self._links, np.int64).reshape(-1, 2)
        self.accesses = Accesses(links, np.array(self._value_access, np.int64))

    def _touches(self, buffer: int, accesses: list[int]) -> list[_Touch]:
        """Returns the touches in order: one for each loop that the buffer outlives, else one for each instruction."""
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
        program = self._program
        defined: tuple[int, list[int], bool] | None = None  # time, accesses that write it, by a loop
        if program.definition[buffer] < 0:
            defined = (given, [], False)
        pending: list[_Touch] = []
        for touch in touches:
            # A loop that writes also carries what was there before.
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
        """Adds a value with its uses. `following`: what writes the next one."""
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
                self._links += [(len(self._uses), a) for a in group]
                self._uses.append((touch.end, touch.latest, moved, goes_on, 0, M_FREE, touch.start))
                self._gains.append(0.0 if touch.whole_loop else self._saved[group[0]])
        at_end = following is None and bool(program.is_output[buffer])
        if at_end and time < self._end:
            self._uses.append((self._end, self._end, 0, -1, 1, M_FREE, self._end))
            self._gains.append(0.0)
        at_start = not written or (at_end and time >= self._end) or not self._born_fast[written].all()
        moved = int(program.access_bytes[written[0]]) if written else 0
        self._values.append((buffer, time, first, len(self._uses), int(at_start), moved, int(bool(written))))
        self._value_access.append(written[0] if written and not by_loop else -1)


def gains(program: Program, target: Target) -> NDArray[np.float32]:
    """Returns `[A]` seconds that each access saves its instruction if it alone is served from fast memory."""
    memory, alone = memory_s(program, target)
    compute = program.compute_s.astype(np.float32)[program.access_instruction]
    saved: NDArray[np.float32] = np.maximum(compute, memory) - np.maximum(compute, alone)
    return saved
