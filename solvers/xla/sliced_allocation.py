"""Offsets for prefetches in slices (XLA: `GlobalDecreasingSizeBestFitHeap::SlicedAllocationFinder`)."""

import numpy as np

from ...env.compiled.jit import njit
from .heap import C_FIRST, C_LAST, C_OFFSET, C_SIZE, NO_OFFSET, Heap, best_gap, fit, gather, has_bytes, is_free
from .problem import L_ALIGN, L_FAST, Problem
from .state import State


@njit(cache=True, nogil=True)
def fit_slices(
    problem: Problem, heap: Heap, state: State, sizes: np.ndarray, starts: np.ndarray, last: int, preferred_offset: int
) -> int:
    """Returns an offset for slices, or `NO_OFFSET`; the slice that comes `i`-th is held over `starts[i] + 1 .. last`.

    Gaps that last from the arrival of the last slice on are tried from the smallest, in each gap the offsets in
    ascending order, at each offset the orders of arrival.

    Args:
      problem: the program.
      heap: the bytes in use.
      state: `state.order[i]` receives the slice that comes `i`-th.
      sizes: of the slices, lowest bytes first.
      starts: times after which slices start, ascending.
      last: last time at which all are held.
      preferred_offset: the only offset to try, or a negative number.
    """
    count = len(sizes)
    full_from = starts[count - 1] + 1
    size = 0
    for index in range(count):
        size += sizes[index]
        state.order[index] = index
    if starts[0] == starts[count - 1]:
        return fit(problem, heap, full_from, last, size, preferred_offset)
    if not has_bytes(problem, heap, full_from, last, size):
        return NO_OFFSET
    align = problem.limit[L_ALIGN]
    # The gaps.
    taken = gather(problem, heap, full_from, last, 0)
    if best_gap(problem, heap, taken, size) == NO_OFFSET:
        return NO_OFFSET
    gaps, reach = 0, 0
    for index in range(taken + 1):
        low = heap.taken[index] >> 32 if index < taken else problem.limit[L_FAST] // align
        if (low - reach) * align >= size:
            # The free bytes above everything count as endless.
            heap.gap[gaps, 0] = low - reach if index < taken else 1 << 40
            heap.gap[gaps, 1] = reach
            gaps += 1
        if index < taken:
            reach = max(reach, heap.taken[index] & 0xFFFFFFFF)
    for _ in range(gaps):
        best = -1
        for index in range(gaps):
            if heap.gap[index, 0] >= 0 and (best < 0 or heap.gap[index, 0] < heap.gap[best, 0]):
                best = index
        low = heap.gap[best, 1] * align
        high = min(low + heap.gap[best, 0] * align, problem.limit[L_FAST])
        heap.gap[best, 0] = -1
        offset = _in_gap(problem, heap, state, sizes, starts, low, high, size, preferred_offset)
        if offset != NO_OFFSET:
            return offset
    return NO_OFFSET


@njit(cache=True, nogil=True)
def _in_gap(
    problem: Problem,
    heap: Heap,
    state: State,
    sizes: np.ndarray,
    starts: np.ndarray,
    low: int,
    high: int,
    size: int,
    preferred_offset: int,
) -> int:
    """Returns an offset within the gap `low..high`, or `NO_OFFSET`."""
    count = len(sizes)
    orders = 1
    if count <= len(state.permutation):
        for index in range(2, count + 1):
            orders *= index
    offset = preferred_offset if preferred_offset >= 0 else low
    while offset >= low and offset + size <= high:
        following = 1 << 60
        for number in range(orders):
            if not _set_order(state, starts, count, number):
                continue
            behind = _blocked(problem, heap, state, sizes, starts, offset)
            if behind < 0:
                return offset
            following = min(following, behind)
        if preferred_offset >= 0:
            break
        offset = following
    return NO_OFFSET


@njit(cache=True, nogil=True)
def _set_order(state: State, starts: np.ndarray, count: int, number: int) -> bool:
    """Sets `state.order` to the `number`-th permutation; returns False if it only swaps slices that start together."""
    if count > len(state.permutation):
        for place in range(count):
            state.order[place] = place
        return True
    # For each slice, from the lowest bytes on, the turn at which it comes.
    turns = state.permutation[count - 1, number]
    for place in range(count):
        for other in range(place + 1, count):
            if turns[place] > turns[other] and starts[turns[place]] == starts[turns[other]]:
                return False
    for place in range(count):
        state.order[turns[place]] = place
    return True


@njit(cache=True, nogil=True)
def _blocked(problem: Problem, heap: Heap, state: State, sizes: np.ndarray, starts: np.ndarray, offset: int) -> int:
    """Returns the next offset to try if a slice finds bytes in use before all have come, else -1."""
    count = len(sizes)
    align = problem.limit[L_ALIGN]
    full_from = starts[count - 1] + 1
    for turn in range(count):
        if starts[turn] + 1 >= full_from:
            break
        place = state.order[turn]
        below = 0
        for other in range(place):
            below += sizes[other]
        if not is_free(problem, heap, starts[turn] + 1, full_from - 1, offset + below, sizes[place]):
            end = _end_of_taken(heap, starts[turn] + 1, full_from - 1, offset + below, sizes[place])
            return max(offset + align, (end - below + align - 1) // align * align)
    return -1


@njit(cache=True, nogil=True)
def _end_of_taken(heap: Heap, first: int, last: int, offset: int, size: int) -> int:
    """Returns the lowest end of the chunks that overlap the bytes over `first..last`."""
    found = 1 << 60
    for bucket in range(max(first, 0) >> 4, (last >> 4) + 1):
        link = heap.head[bucket]
        while link >= 0:
            row = heap.chunk[heap.link[link, 0]]
            link = heap.link[link, 1]
            in_time = row[C_FIRST] <= last and row[C_LAST] >= first and row[C_SIZE] > 0
            if in_time and row[C_OFFSET] < offset + size and offset < row[C_OFFSET] + row[C_SIZE]:
                found = min(found, row[C_OFFSET] + row[C_SIZE])
    return found
