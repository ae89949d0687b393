"""A program as XLA's assignment sees it: the tables that compiled code reads, and the fields of their rows.

A *time* is a place in the compiler's schedule, which also counts instructions that a program leaves out. A *value* is
the content that one definition gives a buffer (XLA: `HloValue`, with its `AllocationValue`). A *use* reads a value; the
end of the program uses the outputs, and a loop is one use of each value that it reads or carries.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...env.compiled.struct import Rows, Struct, one, rows

# Scaled seconds are integers of 2**-40 seconds: sums then do not depend on their order, as in XLA's
# `AsynchronousCopyResource`.
SCALE = 2**40
# Stands for "no preferred time".
NEVER = np.iinfo(np.int32).min

# Of a use with which a collective lets go of the value that it has written.
WRITTEN = -2

# What a use needs. At the end of a pass of a loop, a value has to be where the next pass expects it.
ANYWHERE, IN_HBM, AS_ENTERED = range(3)

# Modes of a use, set by the loop optimiser.
(
    M_FREE,  # the assignment decides
    M_DEFAULT,  # from HBM
    M_KEEP,  # kept in fast memory, however long the stay
) = range(3)

BUFFER = np.dtype(
    [
        ("first_value", np.int64),
        ("end_value", np.int64),  # the value after its last
        ("first_moment", np.int64),  # the times of its uses, in `Problem.moment`
        ("end_moment", np.int64),
        ("bytes", np.int64),
        ("copy", np.int64),  # scaled seconds of a copy of all its bytes
        ("first_slice", np.int64),  # the slices of a prefetch in `Problem.slice_bytes`
        ("slices", np.int64),  # how many; 0 where it is never cut
        # The buffer that a copy reads to make this one, if an asynchronous copy may replace it, else -1; and the use
        # with which it reads.
        ("copied_from", np.int64),
        ("copy_use", np.int64),
        ("passed", np.int64),  # by when copies of its first value must be complete to replace others
        ("first_copy", np.int64),  # what such copies make of this buffer, in `Problem.copies`
        ("end_copy", np.int64),
        ("typical_s", np.float32),  # seconds of a copy of typical size, by which the start of a prefetch is chosen
    ],
    align=True,
)

VALUE = np.dtype(
    [
        ("buffer", np.int64),  # the buffer that holds it
        ("time", np.int64),  # when it is defined
        ("first_use", np.int64),
        ("end_use", np.int64),  # the use after its last
        ("begins_in_hbm", np.int64),  # 1: it does
        ("bytes", np.int64),  # that its definition writes
        ("within", np.int64),  # the use of the loop in whose body it is, or -1
        ("enters", np.int64),  # 1: it is what that use brings into the body
    ],
    align=True,
)

USE = np.dtype(
    [
        ("time", np.int64),  # when the value arrives there
        ("latest", np.int64),  # latest end of a prefetch for it
        ("bytes", np.int64),  # that it reads
        ("next_value", np.int64),  # the value that continues this one in place, or -1
        ("needs", np.int64),  # the memory that it needs its value in: ANYWHERE, IN_HBM or AS_ENTERED
        ("mode", np.int64),  # one of the modes `M_*`
        # A collective lets go of the value: the use with which it took hold of it to read it, or `WRITTEN`; else -1.
        ("held_since", np.int64),
        ("gain_s", np.float32),  # seconds that the instruction saves if this use alone is served from fast memory
        # Of a loop whose body is looked into: when the body begins, and when it first uses the value; else -1.
        ("entered", np.int64),
        ("first", np.int64),
        ("is_unchanged", np.int64),  # 1: by a loop, which hands the value on as it is
        ("more_copies", np.int64),  # how many more copies than usual may be in flight for it at once
        ("resumes", np.int64),  # the time from which on the value waits for its next use
    ],
    align=True,
)

LIMIT = np.dtype(
    [
        ("fast_bytes", np.int64),  # bytes of fast memory
        ("alignment", np.int64),  # of offsets, in bytes
        ("prefetches", np.int64),  # in flight at once
        ("write_backs", np.int64),  # in flight at once
        ("retries", np.int64),  # attempts to place one buffer
        ("repacks", np.int64),  # of all stays
        ("end", np.int64),  # the last time
        ("is_flat", np.int64),  # 1: the program has no loops
        ("slice_min_bytes", np.int64),  # smaller prefetches are not cut into slices
        ("last_instruction", np.int64),  # time of the last instruction
        ("longest_s", np.float32),  # seconds of the longest stay without a use
        ("least_overlap", np.float32),  # least time of a prefetch, in units of the time that its copy takes
        ("preferred_overlap", np.float32),  # preferred time of a prefetch, in the same units
        ("inefficient_ratio", np.float32),  # least bytes used per byte copied
    ],
    align=True,
)


class Problem(Struct):
    """The tables of one program under one setting of options.

    Shapes: `S` times, `N` buffers, `V` values, `U` uses. Values are sorted by buffer and
    definition, uses by value.

    Attributes:
      elapsed: `[S + 1]` seconds before each time, loops weighed; summed in single precision, as XLA does.
      nest: `[S]` how many loops are around each time, conditionals and branches counted.
      outside: `[S]` the next time with fewer loops around it, these not counted, or `S`.
      weight: `[S]` how many times the seconds of each time count.
      reserved: `[S]` bytes at offset 0 that the instruction keeps to itself.
      supply: `[S]` scaled seconds for which the instruction lets copies of one direction move.
      buffer: `[N]` of `BUFFER`.
      value: `[V]` of `VALUE`.
      use: `[U]` of `USE`.
      moment: the times at which uses and views end, buffer by buffer, ascending: for a loop, when it is over. A stay is
        tried up to the latest that it may last to (XLA: `all_use_times`).
      preferred_time: `[U]` preferred start of a prefetch, or `NEVER`.
      copies: what copies that may be replaced make, buffer by buffer that they read, by time.
      slice_bytes: sizes of the slices of prefetches, buffer by buffer, lowest bytes first.
      limit: `LIMIT`.
    """

    elapsed: Rows = rows(np.float32)
    nest: Rows = rows(np.int64)
    outside: Rows = rows(np.int64)
    weight: Rows = rows(np.float32)
    reserved: Rows = rows(np.int64)
    supply: Rows = rows(np.int64)
    buffer: Rows = rows(BUFFER)
    value: Rows = rows(VALUE)
    use: Rows = rows(USE)
    moment: Rows = rows(np.int64)
    preferred_time: Rows = rows(np.int64)
    copies: Rows = rows(np.int64)
    slice_bytes: Rows = rows(np.int64)
    limit: Any = one(LIMIT)


class Accesses(NamedTuple):
    """Links from uses and values back to the accesses of the program.

    Attributes:
      links: `[K, 2]` a use, and an access that it stands for.
      values: `[V]` the access that defines a value, or -1.
      loops: `[W, 3]` a use that a loop makes as a whole, the loop, and the buffer.
    """

    links: NDArray[np.int64]
    values: NDArray[np.int64]
    loops: NDArray[np.int64]
