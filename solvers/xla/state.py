"""What the assignment has decided so far."""

from itertools import permutations
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from . import copy_resource
from . import heap as heaps
from .copy_resource import CopyResource
from .heap import Heap
from .problem import B_COPY, V_BUFFER, V_FIRST, V_LAST, Problem

# Columns of `State.stay`: a stretch of a value's life in one memory (XLA: `Allocation`). One that a copy fills begins
# after the copy's start; `A_DONE` is before which time the copy is complete. `A_GROUP`: the stay whose offset it must
# keep; `A_LOW`, `A_SLICES`: its rows in `State.part`.
(
    A_VALUE,
    A_FAST,
    A_START,
    A_END,
    A_OFFSET,
    A_GROUP,
    A_COPY,
    A_BEGIN,
    A_DONE,
    A_LOW,
    A_SLICES,
    A_CROSS,
) = range(12)
# Columns of `State.part`: a slice, in the order of start: after which time its copy starts, its bytes in the buffer.
S_BEGIN, S_LOW, S_SIZE = range(3)
# Columns of `State.pending`: a copy of the buffer at hand.
P_OUTWARD, P_BEGIN, P_COUNTED, P_DONE = range(4)
# Columns of `State.counts`.
N_STAYS, N_PARTS, N_PENDING, N_REPACKS = range(4)

# What came of an attempt, as bits (XLA: `AllocationResult`).
DONE, NO_MEMORY, NOT_FAST, TOO_LONG, TOO_SHORT, NO_COPIES, NO_BANDWIDTH, UNDO, TOGETHER = (
    0,
    1,
    2,
    4,
    8,
    16,
    32,
    64,
    128,
)
FREE, HBM, FAST = -1, 0, 1

_MOST_PERMUTED = 4


class State(NamedTuple):
    """Everything that changes. Shapes: `V` values, `U` uses.

    Attributes:
      heap, prefetches, write_backs: see there.
      stay: `[M, 12]`. part: `[L, 3]`. pending: `[Q, 4]`. counts: how many of each, repacks, whether one ran out.
      span: `[V, 2]` first stay of a value, stay after its last.
      serves: `[U]` the stay that serves a use, or -1.
      begin: `[V, 3]` where a value must begin (`FREE`, `HBM`, `FAST`), offset, group.
      stay_out, use_out: `[V]`, `[U]` must be in HBM, as fast memory would not pay.
      picker: of the prefetch at hand. starts, order, chosen: `[M]` of its slices: start, slice by start.
      permutation: `[4, 24, 4]` permutations of 1 to 4 things.
    """

    heap: Heap
    prefetches: CopyResource
    write_backs: CopyResource
    stay: NDArray[np.int64]
    part: NDArray[np.int64]
    pending: NDArray[np.int64]
    counts: NDArray[np.int64]
    span: NDArray[np.int64]
    serves: NDArray[np.int64]
    begin: NDArray[np.int64]
    stay_out: NDArray[np.bool_]
    use_out: NDArray[np.bool_]
    picker: NDArray[np.int64]
    starts: NDArray[np.int64]
    order: NDArray[np.int64]
    chosen: NDArray[np.int64]
    permutation: NDArray[np.int64]


def _permutations() -> NDArray[np.int64]:
    table = np.zeros((_MOST_PERMUTED, 24, _MOST_PERMUTED), np.int64)
    for size in range(1, _MOST_PERMUTED + 1):
        for row, found in enumerate(permutations(range(size))):
            table[size - 1, row, :size] = found
    return table


_PERMUTATIONS = _permutations()


def make_state(problem: Problem, factor: int = 1) -> State:
    """Returns a state with room for `factor` times what most programs need."""
    times, values, uses = len(problem.nest), len(problem.value), len(problem.use)
    slices = problem.slices.shape[1]
    sliced = np.count_nonzero(problem.slices, axis=1)
    read = problem.value[:, V_LAST] - problem.value[:, V_FIRST]
    copies = 2 * values + int((sliced[problem.value[:, V_BUFFER]] + 1) @ read)
    stays = 3 * values + 2 * uses + 16
    chunks = factor * (stays + copies + uses)
    return State(
        heap=heaps.make_heap(times, chunks, factor * (6 * chunks + 8 * times)),
        prefetches=copy_resource.make_resource(problem.supply, copies + 16),
        write_backs=copy_resource.make_resource(problem.supply, copies + 16),
        stay=np.zeros((stays, 12), np.int64),
        part=np.zeros((copies + 16, 3), np.int64),
        pending=np.zeros((copies + 16, 4), np.int64),
        counts=np.zeros(4, np.int64),
        span=np.zeros((values, 2), np.int64),
        serves=np.zeros(uses, np.int64),
        begin=np.zeros((values, 3), np.int64),
        stay_out=np.zeros(values, np.bool_),
        use_out=np.zeros(uses, np.bool_),
        picker=np.zeros(6, np.int64),
        starts=np.zeros(slices + 1, np.int64),
        order=np.zeros(slices + 1, np.int64),
        chosen=np.zeros(slices + 1, np.int64),
        permutation=_PERMUTATIONS,
    )


@njit(cache=True, nogil=True)
def reset(state: State) -> None:
    """Sets a state to the beginning."""
    heaps.clear(state.heap)
    copy_resource.clear(state.prefetches)
    copy_resource.clear(state.write_backs)
    state.counts[:] = 0
    state.span[:] = 0
    state.serves[:] = -1
    state.begin[:, 0] = FREE
    state.stay_out[:] = False
    state.use_out[:] = False


@njit(cache=True, nogil=True, forceinline=True)
def add_stay(state: State, value: int, fast: int, start: int, end: int, offset: int, group: int) -> int:
    """Adds a stay without a copy and returns its number. A `group` of -1: one of its own."""
    number = state.counts[N_STAYS]
    state.counts[N_STAYS] += 1
    row = state.stay[number]
    row[:] = 0
    row[A_VALUE], row[A_FAST], row[A_START], row[A_END], row[A_OFFSET] = value, fast, start, end, offset
    row[A_GROUP] = number if group < 0 else group
    state.span[value, 1] = number + 1
    return number


@njit(cache=True, nogil=True, forceinline=True)
def add_copy(problem: Problem, state: State, outward: int, begin: int, done: int, need: int, sliced: int) -> None:
    """Adds a copy to the resource of its direction. Slices count as in flight one time sooner."""
    resource = state.write_backs if outward else state.prefetches
    counted = begin if sliced else begin + 1
    copy_resource.add(resource, problem.supply, begin, done, need, counted)
    row = state.pending[state.counts[N_PENDING]]
    state.counts[N_PENDING] += 1
    row[P_OUTWARD], row[P_BEGIN], row[P_COUNTED], row[P_DONE] = outward, begin, counted, done


@njit(cache=True, nogil=True)
def is_full(state: State) -> bool:
    """Returns whether a table ran out of room: then nothing that was decided means anything."""
    return (
        state.heap.counts[heaps.N_OVERFLOW] != 0
        or state.prefetches.counts[copy_resource.N_FULL] != 0
        or state.write_backs.counts[copy_resource.N_FULL] != 0
    )


@njit(cache=True, nogil=True, forceinline=True)
def part_need(problem: Problem, buffer: int, size: int, whole: int) -> int:
    """Returns the scaled seconds of a copy of `size` of the `whole` bytes of a buffer."""
    return int(problem.buffer[buffer, B_COPY] * (size / whole))
