"""Repacking: new offsets for all stays, the longest first (XLA: `MemorySpaceAssignmentBestFitRepacker`)."""

import numpy as np

from ...env.compiled.jit import njit
from ...env.compiled.sorting import ascending
from . import heap as heaps
from .heap import NO_OFFSET, Heap, best_gap, gather
from .problem import B_SIZE, L_FAST, V_BUFFER, Problem
from .sliced_allocation import fit_slices
from .state import (
    A_COPY,
    A_END,
    A_FAST,
    A_GROUP,
    A_LOW,
    A_OFFSET,
    A_SLICES,
    A_START,
    A_VALUE,
    N_STAYS,
    S_BEGIN,
    S_LOW,
    S_SIZE,
    State,
)


@njit(cache=True, nogil=True)
def repack(problem: Problem, state: State, spare: Heap) -> bool:
    """Gives every stay a new offset if all of them fit; returns whether they do. `spare` is overwritten."""
    stays = state.counts[N_STAYS]
    # The stays of a group share an offset: the first of each group, the next of each stay, the last of each group.
    first = np.full(stays, -1, np.int64)
    after = np.full(stays, -1, np.int64)
    last = np.full(stays, -1, np.int64)
    leaders = 0
    duration = np.empty(stays, np.int64)
    leader = np.empty(stays, np.int64)
    for number in range(stays):
        row = state.stay[number]
        if not row[A_FAST]:
            continue
        group = row[A_GROUP]
        if first[group] < 0:
            first[group] = number
            leader[leaders] = number
            leaders += 1
        else:
            after[last[group]] = number
        last[group] = number
    ends = np.empty(leaders, np.int64)
    for index in range(leaders):
        number = leader[index]
        end = state.stay[number, A_END]
        member = after[number]
        while member >= 0:
            end = max(end, state.stay[member, A_END])
            member = after[member]
        ends[index] = end
        duration[index] = end - state.stay[number, A_START]
    # By duration, then size, both descending, then number: stable sorts, the last key first.
    order = ascending(_negative_sizes(problem, state, leader[:leaders]))
    order = order[ascending(-duration[:leaders][order])]
    heaps.clear(spare)
    heaps.reserve(problem, spare)
    offsets = np.full(stays, NO_OFFSET, np.int64)
    parts = state.part.copy()
    for at in range(leaders):
        number = leader[order[at]]
        offset = _place(problem, state, spare, number, after, parts)
        if offset == NO_OFFSET:
            return False
        member = number
        while member >= 0:
            offsets[member] = offset
            _commit(problem, state, spare, member, offset, parts)
            member = after[member]
    for number in range(stays):
        if state.stay[number, A_FAST]:
            state.stay[number, A_OFFSET] = offsets[number]
    state.part[:] = parts
    heaps.clear(state.heap)
    heaps.reserve(problem, state.heap)
    for number in range(stays):
        if state.stay[number, A_FAST]:
            _commit(problem, state, state.heap, number, offsets[number], parts)
    return True


@njit(cache=True, nogil=True, forceinline=True)
def _size(problem: Problem, state: State, number: int) -> int:
    """Returns the bytes of a stay."""
    return problem.buffer[problem.value[state.stay[number, A_VALUE], V_BUFFER], B_SIZE]


@njit(cache=True, nogil=True, forceinline=True)
def _negative_sizes(problem: Problem, state: State, numbers: np.ndarray) -> np.ndarray:
    sizes = np.empty(len(numbers), np.int64)
    for index in range(len(numbers)):
        sizes[index] = -_size(problem, state, numbers[index])
    return sizes


@njit(cache=True, nogil=True, forceinline=True)
def _full_from(state: State, number: int, parts: np.ndarray) -> int:
    """Returns the time from which all bytes of a stay are held."""
    row = state.stay[number]
    if row[A_SLICES] == 0:
        return row[A_START]
    return parts[row[A_LOW] + row[A_SLICES] - 1, S_BEGIN] + 1


@njit(cache=True, nogil=True)
def _commit(problem: Problem, state: State, heap: Heap, number: int, offset: int, parts: np.ndarray) -> None:
    """Commits the bytes of a stay, slice by slice until all have come."""
    row = state.stay[number]
    full_from = _full_from(state, number, parts)
    for at in range(row[A_LOW], row[A_LOW] + row[A_SLICES]):
        if parts[at, S_BEGIN] + 1 < full_from:
            heaps.commit(
                heap, parts[at, S_BEGIN] + 1, full_from - 1, offset + parts[at, S_LOW], parts[at, S_SIZE], number
            )
    size = _size(problem, state, number)
    heaps.commit(heap, full_from, row[A_END], offset, size, number)
    if row[A_GROUP] != number and not row[A_COPY]:  # a value in place meets the one before it in one time
        heap.exact[max(row[A_START], 0)] -= size


@njit(cache=True, nogil=True, forceinline=True)
def _place(problem: Problem, state: State, heap: Heap, number: int, after: np.ndarray, parts: np.ndarray) -> int:
    """Returns an offset for a stay and its group, or `NO_OFFSET`; may change the order in which slices come."""
    row = state.stay[number]
    size = _size(problem, state, number)
    if after[number] < 0 and row[A_SLICES] > 0:
        count = row[A_SLICES]
        rows = parts[row[A_LOW] : row[A_LOW] + count]
        sizes = rows[ascending(rows[:, S_LOW])][:, S_SIZE].copy()
        starts = rows[:, S_BEGIN].copy()
        offset = fit_slices(problem, heap, state, sizes, starts, row[A_END], -1)
        if offset != NO_OFFSET:
            for turn in range(count):
                place = state.order[turn]
                low = 0
                for other in range(place):
                    low += sizes[other]
                rows[turn, S_LOW], rows[turn, S_SIZE] = low, sizes[place]
        return offset
    # The whole group must fit; slices in a group are held from the first one's start on.
    count, member = 0, number
    while member >= 0:
        count = gather(problem, heap, state.stay[member, A_START], state.stay[member, A_END], count)
        member = after[member]
    offset = best_gap(problem, heap, count, size)
    return offset if offset != NO_OFFSET and offset + size <= problem.limit[L_FAST] else NO_OFFSET
