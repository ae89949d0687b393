"""A program as XLA's assignment sees it: the tables that compiled code reads, and the meaning of their columns.

A *time* is a place in the compiler's schedule, which also counts instructions that a program leaves out. A *value* is
the content that one definition gives a buffer (XLA: `HloValue`, with its `AllocationValue`). A *use* reads a value; the
end of the program uses the outputs, and a loop is one use of each value that it reads or carries.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# Scaled seconds are integers of 2**-40 seconds: sums then do not depend on their order, as in XLA's
# `AsynchronousCopyResource`.
SCALE = 2**40
# Stands for "no preferred time".
NEVER = np.iinfo(np.int32).min

# Columns of `Problem.buffer`.
(
    B_FIRST,  # its first value
    B_LAST,  # the value after its last
    B_SIZE,  # bytes
    B_COPY,  # scaled seconds of a copy of all its bytes
) = range(4)

# Columns of `Problem.value`.
(
    V_BUFFER,  # the buffer that holds it
    V_TIME,  # when it is defined
    V_FIRST,  # its first use
    V_LAST,  # the use after its last
    V_HBM,  # 1: it begins in HBM
    V_BYTES,  # bytes that its definition writes
) = range(6)

# Columns of `Problem.use`.
(
    U_TIME,  # when it ends
    U_LATEST,  # latest end of a prefetch for it
    U_BYTES,  # bytes it reads
    U_NEXT,  # the value that continues this one in place, or -1
    U_HBM,  # 1: it needs its value in HBM
    U_MODE,  # one of the modes below
    U_FROM,  # when it begins: before `U_TIME` for a loop
) = range(7)

# Modes of a use, set by the loop optimiser.
(
    M_FREE,  # the assignment decides
    M_DEFAULT,  # from HBM
    M_KEEP,  # kept in fast memory, however long the stay
) = range(3)

# Columns of `Problem.limit`.
(
    L_FAST,  # bytes of fast memory
    L_ALIGN,  # alignment of offsets, in bytes
    L_PREFETCHES,  # prefetches in flight at once
    L_WRITE_BACKS,  # write-backs in flight at once
    L_RETRIES,  # attempts to place one buffer
    L_REPACKS,  # repacks of all stays
    L_END,  # the last time
    L_FLAT,  # 1: the program has no loops
    L_SLICE_MIN,  # bytes below which a prefetch is not cut into slices
    L_LAST,  # time of the last instruction
) = range(10)

# Columns of `Problem.ratio`.
(
    R_LONGEST,  # seconds of the longest stay without a use
    R_MIN,  # least time of a prefetch, in units of the time that its copy takes
    R_PREFERRED,  # preferred time of a prefetch, in the same units
    R_INEFFICIENT,  # least bytes used per byte copied
) = range(4)


class Problem(NamedTuple):
    """The tables of one program under one setting of options.

    Shapes: `S` times, `N` buffers, `V` values, `U` uses, `D` depths of loops, `M` slices. Values are sorted by buffer
    and definition, uses by value.

    Attributes:
      elapsed: `[S + 1]` seconds before each time, loops weighed; summed in single precision, as XLA does.
      nest: `[S]` how many loops are around each time.
      weight: `[D]` how many times the seconds at each depth count.
      reserved: `[S]` bytes at offset 0 that the instruction keeps to itself.
      supply: `[S]` scaled seconds for which the instruction lets copies of one direction move.
      buffer: `[N, 4]`, columns `B_*`.
      buffer_s: `[N]` seconds of a copy of typical size, by which the start of a prefetch is chosen.
      value: `[V, 6]`, columns `V_*`.
      use: `[U, 7]`, columns `U_*`.
      gain: `[U]` seconds that the instruction saves if this use alone is served from fast memory.
      preferred_time: `[U]` preferred start of a prefetch, or `NEVER`.
      slices: `[N, M]` sizes of the slices of a prefetch, lowest bytes first; 0 beyond the last.
      limit: `[10]`, columns `L_*`.
      ratio: `[4]`, columns `R_*`.
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


class Accesses(NamedTuple):
    """Links from uses and values back to the accesses of the program.

    Attributes:
      links: `[K, 2]` a use, and an access that it stands for.
      values: `[V]` the access that defines a value, or -1.
    """

    links: NDArray[np.int64]
    values: NDArray[np.int64]
