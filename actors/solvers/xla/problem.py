"""A program as XLA's assignment sees it: times of its schedule, values with their uses, sizes, seconds."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....env.program import RESULT, Program
from ....env.target import Target
from .geometry import born_fast, slice_sizes
from .options import Options
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
      use: `[U, 6]` time, latest end of a prefetch, bytes read, value that goes on in place or -1, whether it must be in
        HBM, mode.
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
U_TIME, U_LATEST, U_BYTES, U_NEXT, U_HBM, U_MODE = range(6)


class Accesses(NamedTuple):
    """The way back to the program. `uses[U]`: access or -1; `values[V]`: access of the definition or -1."""

    uses: NDArray[np.int64]
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
    rows = _Rows(program, target, times)
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
        value=np.array(rows.values, np.int64).reshape(-1, 7),
        use=np.array(rows.uses, np.int64).reshape(-1, 6),
        gain=np.array(rows.gains, np.float32),
        want=np.full(len(rows.uses), NEVER, np.int64),
        slices=sizes,
        limit=limit,
        ratio=np.array(
            [longest, options.min_overlap, options.preferred_overlap, options.inefficient_ratio], np.float32
        ),
    )
    return problem, Accesses(np.array(rows.use_access, np.int64), np.array(rows.value_access, np.int64))


class _Rows:
    """Splits the accesses of every buffer into values and uses."""

    def __init__(self, program: Program, target: Target, times: Times) -> None:
        self.values: list[tuple[int, ...]] = []
        self.uses: list[tuple[int, ...]] = []
        self.gains: list[float] = []
        self.value_access: list[int] = []
        self.use_access: list[int] = []
        self.spans = np.zeros((program.num_buffers, 2), np.int64)
        self._program, self._end = program, times.end
        self._at = program.schedule_index.astype(np.int64)
        self._last_of_loop = _ends(program, self._at)
        self._gain = gains(program, target)
        self._born_fast = born_fast(program)
        of_buffer: list[list[int]] = [[] for _ in range(program.num_buffers)]
        for access, buffer in enumerate(program.access_buffer.tolist()):
            of_buffer[buffer].append(access)
        for buffer, accesses in enumerate(of_buffer):
            self.spans[buffer, 0] = len(self.values)
            self._buffer(buffer, accesses, int(times.inputs[buffer]))
            self.spans[buffer, 1] = len(self.values)

    def _buffer(self, buffer: int, accesses: list[int], given: int) -> None:
        program = self._program
        reads: list[int] = []
        open_value: tuple[int, int] | None = (given, -1) if program.definition[buffer] < 0 else None
        index = 0
        while index < len(accesses):
            t = int(program.access_instruction[accesses[index]])
            after = index
            while after < len(accesses) and program.access_instruction[accesses[after]] == t:
                after += 1
            here = accesses[index:after]
            index = after
            written = [a for a in here if program.access_kind[a] == RESULT]
            reads += [a for a in here if program.access_kind[a] != RESULT]
            if written:
                self._close(buffer, open_value, reads, t)
                open_value, reads = (int(self._at[t]), written[0]), []
        self._close(buffer, open_value, reads, None)

    def _close(self, buffer: int, value: tuple[int, int] | None, reads: list[int], following: int | None) -> None:
        """Adds a value with its uses. `following`: the instruction that writes the next one."""
        if value is None:
            return
        program = self._program
        time, access = value
        first = len(self.uses)
        number = len(self.values)
        for read in reads:
            t = int(program.access_instruction[read])
            at = int(self._at[t])
            goes_on = number + 1 if t == following else -1
            self.uses.append((at, at, int(program.access_bytes[read]), goes_on, 0, M_FREE))
            self.gains.append(self._gain[read])
            self.use_access.append(read)
        if following is None and program.is_output[buffer] and time < self._end:
            self.uses.append((self._end, self._end, 0, -1, 1, M_FREE))
            self.gains.append(0.0)
            self.use_access.append(-1)
        given = access < 0
        at_end = following is None and program.is_output[buffer] and time >= self._end
        written = 0 if given else int(program.access_bytes[access])
        at_start = given or not self._born_fast[access]
        row = (buffer, time, first, len(self.uses), int(at_start or at_end), written, int(not given))
        self.values.append(row)
        self.value_access.append(access)


def _ends(program: Program, at: NDArray[np.int64]) -> NDArray[np.int64]:
    return at[program.loop_last] if len(program.loop_last) else np.zeros(0, np.int64)


def gains(program: Program, target: Target) -> NDArray[np.float32]:
    """Returns `[A]` seconds that each access saves its instruction if it alone is served from fast memory."""
    memory, alone = memory_s(program, target)
    compute = program.compute_s.astype(np.float32)[program.access_instruction]
    saved: NDArray[np.float32] = np.maximum(compute, memory) - np.maximum(compute, alone)
    return saved
