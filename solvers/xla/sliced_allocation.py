"""Offsets for prefetches in slices (XLA: `GlobalDecreasingSizeBestFitHeap::SlicedAllocationFinder`)."""

from ...env.compiled.kernel import routine
from .heap import NO_OFFSET, Heap, best_gap, fit, gather, has_bytes, latest_free
from .problem import Problem
from .state import MOST_PERMUTED, PERMUTATIONS, State


@routine
def fit_slices(problem: Problem, heap: Heap, state: State, count: int, last: int, preferred_offset: int) -> int:
    """Returns an offset for slices, or `NO_OFFSET`; the slice of turn `i` is held over `cut[i].start + 1 .. last`.

    Gaps that last from the arrival of the last slice on are tried from the smallest, in each gap the offsets in
    ascending order, at each offset the orders of arrival.

    Args:
      problem: the program.
      heap: the bytes in use.
      state: `state.cut` holds sizes and starts, and receives the order of the slices as `tried`.
      count: number of slices.
      last: last time at which all are held.
      preferred_offset: the only offset to try, if not negative.
    """
    cut = state.cut
    full_from = cut[count - 1].start + 1
    size = 0
    for turn in range(count):
        size += cut[turn].bytes
        cut[turn].tried = turn
    if cut[0].start == cut[count - 1].start:
        return fit(problem, heap, full_from, last, size, preferred_offset)
    if preferred_offset >= 0:
        return _fit_at(problem, heap, state, count, last, size, preferred_offset)
    if not has_bytes(problem, heap, full_from, last, size):
        return NO_OFFSET
    fast_bytes, align = problem.limit.fast_bytes, problem.limit.alignment
    # The gaps.
    taken = gather(problem, heap, full_from, last, 0)
    if best_gap(problem, heap, taken, size) == NO_OFFSET:
        return NO_OFFSET
    gaps, reach = 0, 0
    for index in range(taken + 1):
        low = heap.taken[index] >> 32 if index < taken else fast_bytes // align
        if (low - reach) * align >= size:
            gap = heap.gap[gaps]
            # The free bytes above everything count as endless.
            gap.size = low - reach if index < taken else 1 << 40
            gap.start = reach
            gaps += 1
        if index < taken:
            reach = max(reach, heap.taken[index] & 0xFFFFFFFF)
    orders = _orders(count)
    for _ in range(gaps):
        best = -1
        for index in range(gaps):
            if heap.gap[index].size >= 0 and (best < 0 or heap.gap[index].size < heap.gap[best].size):
                best = index
        gap = heap.gap[best]
        offset = gap.start * align
        high = min(offset + gap.size * align, fast_bytes)
        gap.size = -1
        while offset + size <= high:
            following = 1 << 60
            for number in range(orders):
                if not _set_order(state, count, number):
                    continue
                behind = _blocked(problem, heap, state, count, offset)
                if behind < 0:
                    return offset
                following = min(following, behind)
            offset = following
    return NO_OFFSET


@routine
def _orders(count: int) -> int:
    """Returns how many orders of arrival are tried."""
    orders = 1
    if count <= MOST_PERMUTED:
        for index in range(2, count + 1):
            orders *= index
    return orders


@routine
def _fit_at(problem: Problem, heap: Heap, state: State, count: int, last: int, size: int, offset: int) -> int:
    """Returns an offset if slices of `size` bytes in all fit there, or `NO_OFFSET`."""
    if fit(problem, heap, state.cut[count - 1].start + 1, last, size, offset) == NO_OFFSET:
        return NO_OFFSET
    for number in range(_orders(count)):
        if _set_order(state, count, number) and _blocked(problem, heap, state, count, offset) < 0:
            return offset
    return NO_OFFSET


@routine
def _set_order(state: State, count: int, number: int) -> bool:
    """Sets the slices `tried` to the `number`-th order; returns False if it only swaps slices that start together."""
    cut = state.cut
    if count > MOST_PERMUTED:
        for turn in range(count):
            cut[turn].tried = turn
        return True
    # For each slice, from the lowest bytes on, the turn at which it comes.
    turns, first = state.permutation, ((count - 1) * PERMUTATIONS + number) * MOST_PERMUTED
    for place in range(count):
        turn = turns[first + place]
        for other in range(first + place + 1, first + count):
            if turn > turns[other] and cut[turn].start == cut[turns[other]].start:
                return False
    for place in range(count):
        cut[turns[first + place]].tried = place
    return True


@routine
def _blocked(problem: Problem, heap: Heap, state: State, count: int, offset: int) -> int:
    """Returns the next offset to try if a slice finds bytes in use before all have come, else -1."""
    cut = state.cut
    align = problem.limit.alignment
    last = cut[count - 1].start
    for turn in range(count):
        first = cut[turn].start + 1
        if first > last:
            break
        place = cut[turn].tried
        below = 0
        for other in range(place):
            below += cut[other].bytes
        low, high = offset + below, offset + below + cut[place].bytes
        if high > problem.limit.fast_bytes or latest_free(heap, first, last, low, high - low) < last:
            end = _end_of_taken(heap, first, last, low, high)
            return max(offset + align, (end - below + align - 1) // align * align)
    return -1


@routine
def _end_of_taken(heap: Heap, first: int, last: int, low: int, high: int) -> int:
    """Returns the lowest end of the chunks that overlap the bytes `low..high` over `first..last`."""
    found = 1 << 60
    for bucket in range(max(first, 0) >> 4, (last >> 4) + 1):
        at = heap.head[bucket]
        while at >= 0:
            link = heap.link[at]
            at = link.next
            chunk = heap.chunk[link.chunk]
            in_time = chunk.first <= last and chunk.last >= first and chunk.bytes > 0
            if in_time and chunk.offset < high and low < chunk.offset + chunk.bytes:
                found = min(found, chunk.offset + chunk.bytes)
    return found
