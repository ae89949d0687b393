"""Where a stay fits that should last as long as possible, and where slices fit that come one after the other."""

import numpy as np
from numba import njit

from .heap import C_FIRST, C_LAST, C_OFFSET, C_SIZE, NO_ROOM, Heap, best_gap, fit, gather, has_bytes, is_free
from .picker import may_stay
from .problem import B_FIRST, B_LAST, B_SIZE, L_ALIGN, L_FAST, U_FROM, U_TIME, V_FIRST, V_LAST, Problem
from .state import State


@njit(cache=True, nogil=True)
def longest_fit(problem: Problem, state: State, buffer: int, use: int, first: int, slices: int) -> int:
    """Returns the offset that stays free longest (XLA: `FindBestChunkCandidates`), or `NO_ROOM`.

    A search by halves finds until which use, of those from `use` on between which the buffer may stay. With slices
    their starts are in `state.starts`, and `state.chosen` receives the slice that comes at each.
    """
    values = problem.buffer[buffer]
    end_of_uses = problem.value[values[B_LAST] - 1, V_LAST]
    begin_of_uses = problem.value[values[B_FIRST], V_FIRST]
    earliest = use
    while earliest > begin_of_uses and problem.use[earliest - 1, U_TIME] == problem.use[use, U_TIME]:
        earliest -= 1
    last = earliest
    while last + 1 < end_of_uses and may_stay(problem, problem.use[last, U_TIME], problem.use[last + 1, U_FROM]):
        last += 1
    if last > earliest:  # what fits up to the last of them needs no search
        offset = _fit(problem, state, buffer, first, problem.use[last, U_TIME], slices, -1)
        if offset != NO_ROOM:
            state.chosen[:slices] = state.order[:slices]
            return offset
        last -= 1
    low, count = earliest, last + 1 - earliest
    best, best_time = NO_ROOM, -1
    while count > 0:
        step = count // 2
        time = problem.use[low + step, U_TIME]
        offset = _fit(problem, state, buffer, first, time, slices, -1)
        if offset != NO_ROOM:
            if time > best_time:
                best, best_time = offset, time
                state.chosen[:slices] = state.order[:slices]
            low += step + 1
            count -= step + 1
        else:
            count = step
    return best


@njit(cache=True, nogil=True, forceinline=True)
def fit_at(problem: Problem, state: State, buffer: int, first: int, last: int, slices: int, wanted: int) -> int:
    """Returns `wanted` if the buffer fits there over `first..last`, else `NO_ROOM`."""
    offset = _fit(problem, state, buffer, first, last, slices, wanted)
    state.chosen[:slices] = state.order[:slices]
    return offset


@njit(cache=True, nogil=True, forceinline=True)
def _fit(problem: Problem, state: State, buffer: int, first: int, last: int, slices: int, wanted: int) -> int:
    size = problem.buffer[buffer, B_SIZE]
    if slices == 0:
        return fit(problem, state.heap, first, last, size, wanted)
    return fit_slices(problem, state.heap, state, problem.slices[buffer, :slices], state.starts, last, wanted)


@njit(cache=True, nogil=True)
def fit_slices(
    problem: Problem, heap: Heap, state: State, sizes: np.ndarray, starts: np.ndarray, last: int, wanted: int
) -> int:
    """Returns an offset for slices of which the one that comes `i`-th is held over `starts[i] + 1 .. last`.

    `state.order` receives which one that is. Gaps that are there once all have come are tried from the smallest on, in
    each the offsets, at each offset the orders of coming (XLA: `SlicedAllocationFinder`).
    """
    count = len(sizes)
    full_from = starts[count - 1] + 1
    size = 0
    for index in range(count):
        size += sizes[index]
        state.order[index] = index
    if starts[0] == starts[count - 1]:
        return fit(problem, heap, full_from, last, size, wanted)
    if not has_bytes(problem, heap, full_from, last, size):
        return NO_ROOM
    align = problem.limit[L_ALIGN]
    # The gaps, by size.
    taken = gather(problem, heap, full_from, last, 0)
    if best_gap(problem, heap, taken, size) == NO_ROOM:
        return NO_ROOM
    gaps, reach = 0, 0
    for index in range(taken + 1):
        low = heap.taken[index] >> 32 if index < taken else problem.limit[L_FAST] // align
        if (low - reach) * align >= size:
            # The room above everything counts as endless.
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
        offset = _in_gap(problem, heap, state, sizes, starts, low, high, size, wanted)
        if offset != NO_ROOM:
            return offset
    return NO_ROOM


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
    wanted: int,
) -> int:
    count = len(sizes)
    orders = 1
    if count <= len(state.permutation):
        for index in range(2, count + 1):
            orders *= index
    offset = wanted if wanted >= 0 else low
    while offset >= low and offset + size <= high:
        following = 1 << 60
        for number in range(orders):
            if not _set_order(state, starts, count, number):
                continue
            behind = _blocked(problem, heap, state, sizes, starts, offset)
            if behind < 0:
                return offset
            following = min(following, behind)
        if wanted >= 0:
            break
        offset = following
    return NO_ROOM


@njit(cache=True, nogil=True)
def _set_order(state: State, starts: np.ndarray, count: int, number: int) -> bool:
    """Sets `state.order` to a permutation of slices, unless it only swaps slices that start together."""
    if count > len(state.permutation):
        for place in range(count):
            state.order[place] = place
        return True
    # Place by place from the lowest bytes on: the turn at which the slice comes.
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
    """Returns a greater offset to try if some slice finds its place taken before all have come, else -1."""
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
