"""The state of an assignment: stays, copies and slices decided so far, and the results that an attempt may have."""

from itertools import permutations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...env.compiled.jit import njit
from . import copy_resource
from . import heap as heaps
from .copy_resource import CopyResource
from .heap import Heap
from .problem import B_COPY, V_BUFFER, V_FIRST, V_LAST, Problem

# Columns of `State.stay`: a value in one memory over an interval of times (XLA: `Allocation`; with a copy,
# `CopyAllocation`).
(
    A_VALUE,  # the value
    A_FAST,  # the memory: HBM or FAST
    A_START,  # first time; with a copy, the time after the copy's start
    A_END,  # last time
    A_OFFSET,  # in fast memory, else NO_OFFSET
    A_GROUP,  # the stay whose offset it must keep, itself for one of its own
    A_COPY,  # 1: a copy fills it
    A_BEGIN,  # time after which the copy starts
    A_DONE,  # time before which the copy is complete
    A_LOW,  # first row of its slices in `State.part`
    A_SLICES,  # number of its slices, 0 for none
    A_CROSS,  # 1: the previous execution prefetches it; 2: this one prefetches it for the next
) = range(12)
# Columns of `State.part`: a slice of a prefetch, in the order of start.
(
    S_BEGIN,  # time after which its copy starts
    S_LOW,  # its lowest byte in the buffer
    S_SIZE,  # bytes
) = range(3)
# Columns of `State.pending`: a copy made for the buffer at hand, which an undo removes.
(
    P_OUTWARD,  # 1 for a write-back, 0 for a prefetch
    P_BEGIN,  # time after which it starts
    P_COUNTED,  # first time at which it counts as in flight
    P_DONE,  # time before which it is complete
) = range(4)
# Columns of `State.counts`: rows of the tables above, and repacks made.
N_STAYS, N_PARTS, N_PENDING, N_REPACKS = range(4)

# Results of an attempt, as bits (XLA: `AllocationResult`).
DONE = 0  # kSuccess
NO_MEMORY = 1  # kFailOutOfMemory
NOT_FAST = 2  # kFailPrevAllocationNotInAlternateMem
TOO_LONG = 4  # kFailLiveRangeTooLong
TOO_SHORT = 8  # kFailLiveRangeTooShort
NO_COPIES = 16  # kFailOutOfAsyncCopies
NO_BANDWIDTH = 32  # kFailViolatesAsyncCopyResource
UNDO = 64  # kFailRequiresUncommit
TOGETHER = 128  # kAllSlicesHaveTheSameStartTime

# Memories of a stay, and of the place where a value must begin; FREE: either.
FREE, HBM, FAST = -1, 0, 1

_MOST_PERMUTED = 4


class State(NamedTuple):
    """All that an assignment changes. Shapes: `V` values, `U` uses, `M` slices of a prefetch.

    Attributes:
      heap: the chunks of fast memory in use.
      prefetches, write_backs: the copies of each direction.
      stay: `[., 12]`, columns `A_*`; the stays of a value follow one another.
      part: `[., 3]`, columns `S_*`.
      pending: `[., 4]`, columns `P_*`.
      counts: `[4]`, columns `N_*`.
      span: `[V, 2]` first stay of a value, stay after its last.
      serves: `[U]` the stay that serves a use, or -1.
      begin: `[V, 3]` memory in which a value must begin, offset, group.
      stay_out: `[V]` the value must begin in HBM: in fast memory it would be inefficient.
      use_out: `[U]` the use must be served from HBM, for the same reason.
      picker: `[6]` the interval picker of the prefetch at hand.
      starts: `[M]` times after which the slices of the prefetch at hand start, ascending.
      order: `[M]` the slice that comes at each start, in the fit tried last; slices are numbered from the lowest bytes.
      chosen: `[M]` the same of the fit that was accepted.
      permutation: `[4, 24, 4]` permutations of 1 to 4 items.
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
    """Returns an empty state.

    Args:
      problem: the program.
      factor: multiple of the heap's usual size; larger where `is_full` has said that it ran out.
    """
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
    """Empties a state."""
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
    """Adds a stay without a copy and returns its number; a `group` of -1 stands for a group of its own."""
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
    """Adds a copy to the resource of its direction; slices count as in flight one time sooner."""
    resource = state.write_backs if outward else state.prefetches
    counted = begin if sliced else begin + 1
    copy_resource.add(resource, problem.supply, begin, done, need, counted)
    row = state.pending[state.counts[N_PENDING]]
    state.counts[N_PENDING] += 1
    row[P_OUTWARD], row[P_BEGIN], row[P_COUNTED], row[P_DONE] = outward, begin, counted, done


@njit(cache=True, nogil=True)
def is_full(state: State) -> bool:
    """Returns whether a table overflowed; the state is meaningless then."""
    return (
        state.heap.counts[heaps.N_OVERFLOW] != 0
        or state.prefetches.counts[copy_resource.N_FULL] != 0
        or state.write_backs.counts[copy_resource.N_FULL] != 0
    )


@njit(cache=True, nogil=True, forceinline=True)
def part_need(problem: Problem, buffer: int, size: int, whole: int) -> int:
    """Returns the scaled seconds of a copy of `size` of the `whole` bytes of a buffer."""
    return int(problem.buffer[buffer, B_COPY] * (size / whole))
