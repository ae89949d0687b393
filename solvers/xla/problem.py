"""A program as XLA's assignment sees it: times of its schedule, values with their uses, sizes, seconds."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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
      preferred_time: `[U]` preferred start of a prefetch, or `NEVER`.
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
    preferred_time: NDArray[np.int64]
    slices: NDArray[np.int64]
    limit: NDArray[np.int64]
    ratio: NDArray[np.float32]


# Columns of `Problem.buffer`, `Problem.value`, `Problem.use`.
B_FIRST, B_LAST, B_SIZE, B_COPY = range(4)
V_BUFFER, V_TIME, V_FIRST, V_LAST, V_HBM, V_BYTES = range(6)
U_TIME, U_LATEST, U_BYTES, U_NEXT, U_HBM, U_MODE, U_FROM = range(7)


class Accesses(NamedTuple):
    """The way back to the program. `links[K, 2]`: use, access that it stands for; `values[V]`: access or -1."""

    links: NDArray[np.int64]
    values: NDArray[np.int64]
