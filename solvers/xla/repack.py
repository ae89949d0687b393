"""Repacking: new offsets for all stays, the longest first (XLA: `MemorySpaceAssignmentBestFitRepacker`)."""

from ...env.compiled.kernel import routine
from ...env.compiled.struct import Rows
from .heap import NO_OFFSET, Heap, best_gap, commit, gather, latest_free, start_over, use
from .problem import Problem
from .sliced_allocation import find_gaps, find_order, next_gap
from .sorting import sort
from .state import FAST, State

# Keys of sorting hold an index in so many low bits.
_INDEX_BITS = 22
_INDEX = (1 << _INDEX_BITS) - 1


@routine
def repack(problem: Problem, state: State) -> bool:
    """Gives every stay a new offset if all of them fit; returns whether they do."""
    spare, moved = state.spare, state.moved
    leaders = _sort_groups(problem, state)
    start_over(problem, spare)
    for number in range(state.now.reservations):
        _commit_reservation(state, spare, number)
    for number in range(state.now.slices):
        _copy_slice(state.slice, state.moved_slice, number)
    for at in range(leaders):
        number = moved[at].leader
        offset = _new_offset(problem, state, number)
        if offset == NO_OFFSET:
            return False
        while number >= 0:
            moved[number].offset = offset
            _commit(problem, state, spare, number)
            number = moved[number].next
    for number in range(state.now.slices):
        _copy_slice(state.moved_slice, state.slice, number)
    start_over(problem, state.heap)
    for number in range(state.now.reservations):
        _commit_reservation(state, state.heap, number)
    for number in range(state.now.stays):
        if state.stay[number].memory == FAST:
            state.stay[number].offset = moved[number].offset
            _commit(problem, state, state.heap, number)
    return True


@routine
def _commit_reservation(state: State, heap: Heap, number: int) -> None:
    """Commits a reservation that is not given up, at its old offset: XLA's repacker may move it."""
    row = state.reservation[number]
    if row.chunk >= 0:
        row.chunk = heap.now.chunks
        commit(heap, row.time, row.time, row.offset, row.bytes)


@routine
def _copy_slice(source: Rows, into: Rows, number: int) -> None:
    one, other = source[number], into[number]
    other.begin, other.low, other.bytes = one.begin, one.low, one.bytes


@routine
def _sort_groups(problem: Problem, state: State) -> int:
    """Links the stays of each group and sorts the groups: by duration, then size, the most first; returns how many."""
    moved, keys, other = state.moved, state.key, state.spare_key
    leaders = 0
    for number in range(state.now.stays):
        moved[number].first = moved[number].next = -1
    for number in range(state.now.stays):
        stay = state.stay[number]
        if stay.memory != FAST:
            continue
        group = moved[stay.group]
        if group.first < 0:
            group.first, group.end = number, stay.end
            keys[leaders] = (-_bytes(problem, state, number) << _INDEX_BITS) | number
            leaders += 1
        else:
            moved[group.last].next = number
            group.end = max(group.end, stay.end)
        group.last = number
    # Groups begin with ascending numbers: the lower number comes first of groups that are equal otherwise.
    sort(keys, other, leaders)
    for at in range(leaders):
        number = keys[at] & _INDEX
        moved[at].leader = number
        duration = moved[state.stay[number].group].end - state.stay[number].start
        keys[at] = (-duration << _INDEX_BITS) | at
    sort(keys, other, leaders)
    for at in range(leaders):
        keys[at] = moved[keys[at] & _INDEX].leader
    for at in range(leaders):
        moved[at].leader = keys[at]
    return leaders


@routine
def _bytes(problem: Problem, state: State, number: int) -> int:
    """Returns the bytes of a stay."""
    return problem.buffer[problem.value[state.stay[number].value].buffer].bytes


@routine
def _commit(problem: Problem, state: State, heap: Heap, number: int) -> None:
    """Commits the bytes of a stay at its new offset, slice by slice until all have come."""
    stay, offset = state.stay[number], state.moved[number].offset
    full_from = _full_from(state, state.moved_slice, number)
    for at in range(stay.first_slice, stay.first_slice + stay.slices):
        row = state.moved_slice[at]
        commit(heap, row.begin + 1, full_from - 1, offset + row.low, row.bytes)
    size = _bytes(problem, state, number)
    commit(heap, full_from, stay.end, offset, size)
    if stay.group != number and not stay.is_copied:  # a value in place meets the one before it in one time
        use(heap, max(stay.start, 0), max(stay.start, 0), -size)


@routine
def _new_offset(problem: Problem, state: State, leader: int) -> int:
    """Returns an offset for a group, or `NO_OFFSET`; orders the slices of its stays anew.

    Gaps lie between the bytes in use while stays are there as a whole. Whether the slices that come earlier fit is
    checked offset by offset.
    """
    moved, heap = state.moved, state.spare
    size = _bytes(problem, state, leader)
    count, sliced, number = 0, False, leader
    while number >= 0:
        count = gather(problem, heap, _full_from(state, state.slice, number), state.stay[number].end, count)
        sliced = sliced or state.stay[number].slices > 0
        number = moved[number].next
    if not sliced:
        return best_gap(problem, heap, count, size)
    gaps = find_gaps(problem, heap, count, size)
    for _ in range(gaps):
        best = next_gap(heap, gaps)
        offset, high = heap.gap[best].start, heap.gap[best].end
        is_even = _is_even(state, leader, offset, high)
        while offset + size <= high:
            following = _place_slices(problem, state, leader, offset)
            if following < 0:
                return offset
            offset = high if is_even else following
    return NO_OFFSET


@routine
def _full_from(state: State, slices: Rows, number: int) -> int:
    """Returns the first time at which all of a stay is there."""
    stay = state.stay[number]
    return slices[stay.first_slice + stay.slices - 1].begin + 1 if stay.slices > 0 else stay.start


@routine
def _is_even(state: State, leader: int, low: int, high: int) -> bool:
    """Returns whether a gap is there for the first slice of a stay already: then only its lowest bytes are tried."""
    full_from = _full_from(state, state.slice, leader)
    first = state.stay[leader].start
    return first >= full_from or latest_free(state.spare, first, full_from - 1, low, high - low) == full_from - 1


@routine
def _place_slices(problem: Problem, state: State, leader: int, offset: int) -> int:
    """Orders the slices of a group for an offset and returns -1, or returns the next offset to try."""
    number = leader
    while number >= 0:
        count = state.stay[number].slices
        if count > 0:
            _take_up(state, number)
            following = find_order(problem, state.spare, state, count, offset)
            if following >= 0:
                return following
            _lay_down(state, number)
        number = state.moved[number].next
    return -1


@routine
def _take_up(state: State, number: int) -> None:
    """Sets `cut` to the slices of a stay as they are."""
    stay, cut = state.stay[number], state.cut
    for turn in range(stay.slices):
        row = state.slice[stay.first_slice + turn]
        place = came = 0
        for other in range(stay.slices):
            one = state.slice[stay.first_slice + other]
            place += one.low < row.low
            # Of slices that start together, the one with the lower bytes counts as the first.
            came += one.begin < row.begin or (one.begin == row.begin and one.low < row.low)
        cut[place].bytes, cut[place].turn = row.bytes, came
        cut[turn].start = row.begin


@routine
def _lay_down(state: State, number: int) -> None:
    """Gives the slices of a stay the order that was tried."""
    stay, cut = state.stay[number], state.cut
    for turn in range(stay.slices):
        place = cut[turn].tried
        row = state.moved_slice[stay.first_slice + turn]
        row.low, row.bytes = 0, cut[place].bytes
        for other in range(place):
            row.low += cut[other].bytes
