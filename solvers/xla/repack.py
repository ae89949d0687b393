"""Repacking: new offsets for all stays, the longest first (XLA: `MemorySpaceAssignmentBestFitRepacker`)."""

from ...env.compiled.kernel import routine
from ...env.compiled.struct import Rows
from .heap import NO_OFFSET, Heap, best_gap, commit, gather, start_over
from .problem import Problem
from .sliced_allocation import fit_slices
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
    moved, keys, other = state.moved, state.spare.taken, state.spare.other
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
    full_from = stay.start
    if stay.slices > 0:
        full_from = state.moved_slice[stay.first_slice + stay.slices - 1].begin + 1
    for at in range(stay.first_slice, stay.first_slice + stay.slices):
        row = state.moved_slice[at]
        commit(heap, row.begin + 1, full_from - 1, offset + row.low, row.bytes)
    size = _bytes(problem, state, number)
    commit(heap, full_from, stay.end, offset, size)
    if stay.group != number and not stay.is_copied:  # a value in place meets the one before it in one time
        heap.exact[max(stay.start, 0)] -= size


@routine
def _new_offset(problem: Problem, state: State, number: int) -> int:
    """Returns an offset for a stay and its group, or `NO_OFFSET`; may change the order in which slices come."""
    stay, moved, cut = state.stay[number], state.moved, state.cut
    if moved[number].next < 0 and stay.slices > 0:
        first = stay.first_slice
        for turn in range(stay.slices):
            row = state.moved_slice[first + turn]
            place = 0
            for other in range(stay.slices):
                if state.moved_slice[first + other].low < row.low:
                    place += 1
            cut[place].bytes = row.bytes
            cut[turn].start = row.begin
        offset = fit_slices(problem, state.spare, state, stay.slices, stay.end, -1)
        if offset != NO_OFFSET:
            for turn in range(stay.slices):
                place = cut[turn].tried
                row = state.moved_slice[first + turn]
                row.low, row.bytes = 0, cut[place].bytes
                for other in range(place):
                    row.low += cut[other].bytes
        return offset
    # The whole group must fit; slices in a group are held from the first one's start on.
    size = _bytes(problem, state, number)
    count = 0
    while number >= 0:
        count = gather(problem, state.spare, state.stay[number].start, state.stay[number].end, count)
        number = moved[number].next
    return best_gap(problem, state.spare, count, size)
