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
        fits = fit(problem, heap, full_from, last, size, preferred_offset) != NO_OFFSET
        fits = fits and find_order(problem, heap, state, count, preferred_offset) < 0
        return preferred_offset if fits else NO_OFFSET
    if not has_bytes(problem, heap, full_from, last, size):
        return NO_OFFSET
    gaps = find_gaps(problem, heap, gather(problem, heap, full_from, last, 0), size)
    for _ in range(gaps):
        best = next_gap(heap, gaps)
        offset, high = heap.gap[best].start, heap.gap[best].end
        while offset + size <= high:
            following = find_order(problem, heap, state, count, offset)
            if following < 0:
                return offset
            offset = following
    return NO_OFFSET


@routine
def find_gaps(problem: Problem, heap: Heap, taken: int, size: int) -> int:
    """Fills `heap.gap` with the gaps of `size` bytes between the first spans of `taken`; returns their number."""
    align = problem.limit.alignment
    if best_gap(problem, heap, taken, size) == NO_OFFSET:
        return 0
    gaps, reach = 0, 0
    for index in range(taken + 1):
        low = heap.taken[index].low if index < taken else problem.limit.fast_bytes // align
        if (low - reach) * align >= size:
            gap = heap.gap[gaps]
            gap.start, gap.end = reach * align, low * align
            # The free bytes above everything count as endless.
            gap.size = low - reach if index < taken else 1 << 40
            gaps += 1
        if index < taken:
            reach = heap.taken[index].high
    return gaps


@routine
def next_gap(heap: Heap, gaps: int) -> int:
    """Returns the smallest gap, the lowest of equal ones, that no call has returned before."""
    best = -1
    for index in range(gaps):
        if heap.gap[index].size >= 0 and (best < 0 or heap.gap[index].size < heap.gap[best].size):
            best = index
    heap.gap[best].size = -1
    return best


@routine
def find_order(problem: Problem, heap: Heap, state: State, count: int, offset: int) -> int:
    """Sets the slices `tried` to the first order that fits at an offset; returns -1, or the next offset to try."""
    following = 1 << 60
    for number in range(_orders(count)):
        if not _set_order(state, count, number):
            continue
        behind = _blocked(problem, heap, state, count, offset)
        if behind < 0:
            return -1
        following = min(following, behind)
    return following


@routine
def _orders(count: int) -> int:
    """Returns how many orders of arrival are tried."""
    if count > MOST_PERMUTED:
        return 3
    orders = 1
    for index in range(2, count + 1):
        orders *= index
    return orders


@routine
def _set_order(state: State, count: int, number: int) -> bool:
    """Sets the slices `tried` to the `number`-th order; returns False if it is not to be tried.

    That is one that only swaps slices that start together, or that has a slice of another size start when one of a copy
    that is moved does (XLA: `SliceTimePermutationIterator`).
    """
    cut = state.cut
    if count > MOST_PERMUTED:
        _set_shape(state, count, number)
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
    return cut[0].turn < 0 or _keeps_sizes(state, count)


@routine
def _keeps_sizes(state: State, count: int) -> bool:
    """Returns whether slices of the same sizes start at each time as before."""
    cut = state.cut
    for place in range(count):
        size, start = cut[place].bytes, cut[cut[place].turn].start
        now = before = 0
        for other in range(count):
            if cut[other].bytes == size and cut[cut[other].turn].start == start:
                before += 1
        for turn in range(count):
            if cut[cut[turn].tried].bytes == size and cut[turn].start == start:
                now += 1
        if now != before:
            return False
    return True


@routine
def _set_shape(state: State, count: int, shape: int) -> None:
    """Sets one of three orders of many slices: from the lowest bytes upwards, downwards, or from the middle outwards.

    In a copy that is moved, slices of another size than the first keep their turns.
    """
    cut = state.cut
    free = 0
    for turn in range(count):
        is_kept = False
        for place in range(count):
            if cut[place].turn == turn and cut[place].bytes != cut[0].bytes:
                cut[turn].tried = place
                is_kept = True
        if not is_kept:
            cut[free].free = turn
            free += 1
    place = -1
    for step in range(2 * free):
        # The free turns from the last to the first, then from the first to the last.
        falling = step < free
        index = free - 1 - step if falling else step - free
        if falling and (shape == 0 or (shape == 2 and index % 2 == 0)):
            continue
        if not falling and (shape == 1 or (shape == 2 and index % 2 == 1)):
            continue
        place += 1
        while cut[place].turn >= 0 and cut[place].bytes != cut[0].bytes:
            place += 1
        cut[cut[index].free].tried = place


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
