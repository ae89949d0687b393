"""One prefetch: its start, its slices and its offset (XLA: `MsaAlgorithm::Prefetch`)."""

import numpy as np

from ...env.compiled.jit import njit
from . import heap as heaps
from .chunk_candidates import longest_fit
from .copy_resource import N_LOGGED, consume, has_enough, outstanding, take_back
from .heap import NO_OFFSET
from .interval_picker import P_LATEST, begin, is_done, next_start, slice_starts
from .problem import B_COPY, B_SIZE, L_FAST, L_PREFETCHES, L_SLICE_MIN, NEVER, U_LATEST, U_TIME, Problem
from .state import (
    A_BEGIN,
    A_COPY,
    A_DONE,
    A_END,
    A_LOW,
    A_SLICES,
    A_START,
    DONE,
    FAST,
    N_PARTS,
    NO_BANDWIDTH,
    NO_COPIES,
    NO_MEMORY,
    S_BEGIN,
    S_LOW,
    S_SIZE,
    TOGETHER,
    TOO_SHORT,
    State,
    add_copy,
    add_stay,
    part_need,
)

# A copy in slices must find this multiple of the bandwidth that it needs: XLA prefers to copy as a whole.
_SLICED = 1.8


@njit(cache=True, nogil=True)
def prefetch(
    problem: Problem, state: State, value: int, buffer: int, use: int, source: int, preferred_time: int
) -> int:
    """Tries to prefetch a value for a use.

    Slices are preferred; a copy as a whole, at the first start that admits one, is the fallback.

    Args:
      problem: the program.
      state: the decisions so far.
      value: the value.
      buffer: the buffer that holds it.
      use: the use to serve.
      source: the stay in HBM to copy from.
      preferred_time: the start to try first, or `NEVER`; such a copy is not checked against the bandwidth.

    Returns:
      `DONE`, or the reasons against it as bits.
    """
    size = problem.buffer[buffer, B_SIZE]
    end, last = problem.use[use, U_LATEST], problem.use[use, U_TIME]
    slices = 0
    if size >= problem.limit[L_SLICE_MIN]:
        while problem.slices[buffer, slices] > 0:
            slices += 1
    source_row = state.stay[source]
    earliest = source_row[A_DONE] if source_row[A_COPY] else source_row[A_START]
    fits_from = end
    while fits_from - 1 > earliest and state.heap.used[fits_from - 1] + size <= problem.limit[L_FAST]:
        fits_from -= 1
    if fits_from == end:
        return NO_MEMORY
    if slices == 0:
        earliest = fits_from - 1
    if preferred_time != NEVER:
        preferred_time = max(preferred_time, earliest)
    begin(problem, state.picker, problem.buffer_s[buffer], problem.gain[use], earliest, end, preferred_time)
    latest = state.picker[P_LATEST]
    state.starts[: max(slices, 1)] = latest
    if longest_fit(problem, state, buffer, use, latest + 1, slices) == NO_OFFSET:
        return NO_MEMORY
    result, full = DONE, -(1 << 40)
    whole_start, whole_offset = NEVER, NO_OFFSET
    while not is_done(state.picker):
        start = next_start(problem, state.picker)
        if start <= full:
            return NO_MEMORY
        if slices > 0:
            slice_starts(problem, start, end, slices, state.starts)
            found, offset = _check_slices(problem, state, buffer, use, slices, end, preferred_time != NEVER)
            if found == DONE:
                _take_slices(problem, state, value, buffer, use, slices, end, offset, preferred_time != NEVER)
                return DONE
            if found != TOGETHER:
                result |= found
            if found == NO_MEMORY:
                full = max(full, start)
        if whole_start == NEVER:
            need = 0 if preferred_time != NEVER else problem.buffer[buffer, B_COPY]
            found, offset = _check_whole(problem, state, buffer, use, start, end, need)
            if found == DONE:
                whole_start, whole_offset = start, offset
                if slices == 0:
                    break
            else:
                result |= found
                if found == NO_MEMORY and slices == 0:
                    full = max(full, start)
    if whole_start == NEVER:
        return result if result else TOO_SHORT
    heaps.commit(state.heap, whole_start + 1, last, whole_offset, size, -1)
    number = add_stay(state, value, FAST, whole_start + 1, last, whole_offset, -1)
    row = state.stay[number]
    row[A_COPY], row[A_BEGIN], row[A_DONE] = 1, whole_start, end
    _hold(state, number)
    need = 0 if preferred_time != NEVER else problem.buffer[buffer, B_COPY]
    add_copy(problem, state, 0, whole_start, end, need, 0)
    state.stay[source, A_END] = max(state.stay[source, A_END], end)
    state.serves[use] = number
    return DONE


@njit(cache=True, nogil=True, forceinline=True)
def _hold(state: State, number: int) -> None:
    """Makes a stay the holder of the chunk that was committed last."""
    state.heap.chunk[state.heap.counts[heaps.N_CHUNKS] - 1, heaps.C_HOLDER] = number


@njit(cache=True, nogil=True, forceinline=True)
def _check_whole(
    problem: Problem, state: State, buffer: int, use: int, start: int, end: int, need: int
) -> tuple[int, int]:
    """Returns the result of a copy as a whole, and its offset (XLA: `CheckPrefetchFit`)."""
    if outstanding(state.prefetches, start, end) >= problem.limit[L_PREFETCHES]:
        return NO_COPIES, NO_OFFSET
    if not has_enough(state.prefetches, problem.supply, start, end, need):
        return NO_BANDWIDTH, NO_OFFSET
    offset = longest_fit(problem, state, buffer, use, start + 1, 0)
    return (DONE, offset) if offset != NO_OFFSET else (NO_MEMORY, NO_OFFSET)


@njit(cache=True, nogil=True)
def _check_slices(
    problem: Problem, state: State, buffer: int, use: int, slices: int, end: int, free: bool
) -> tuple[int, int]:
    """Returns the result of a copy in slices, and its offset; a `free` one needs no bandwidth."""
    starts, sizes = state.starts, problem.slices[buffer]
    if starts[0] == starts[slices - 1]:
        return TOGETHER, NO_OFFSET
    for turn in range(slices):
        if outstanding(state.prefetches, starts[turn], end) + turn >= problem.limit[L_PREFETCHES]:
            return NO_COPIES, NO_OFFSET
    least = sizes[0]
    for place in range(slices):
        least = min(least, sizes[place])
    # The order of the slices is not known yet: the smallest first.
    for place in range(slices):
        state.order[place] = (place + slices - 1) % slices if sizes[slices - 1] == least else place
    if not _enough_for_slices(problem, state, buffer, slices, end, free, state.order):
        return NO_BANDWIDTH, NO_OFFSET
    offset = longest_fit(problem, state, buffer, use, starts[0] + 1, slices)
    if offset == NO_OFFSET:
        return NO_MEMORY, NO_OFFSET
    if not _enough_for_slices(problem, state, buffer, slices, end, free, state.chosen):
        return NO_BANDWIDTH, NO_OFFSET
    return DONE, offset


@njit(cache=True, nogil=True)
def _enough_for_slices(
    problem: Problem, state: State, buffer: int, slices: int, end: int, free: bool, order: np.ndarray
) -> bool:
    """Returns whether the bandwidth suffices for slices in some order."""
    resource = state.prefetches
    logged = resource.counts[N_LOGGED]
    fits = True
    for turn in range(slices):
        need = 0
        if not free:
            size = problem.slices[buffer, order[turn]]
            need = int(part_need(problem, buffer, size, problem.buffer[buffer, B_SIZE]) * _SLICED)
        if not consume(resource, problem.supply, state.starts[turn], end, need):
            fits = False
            break
    take_back(resource, logged)
    return fits


@njit(cache=True, nogil=True)
def _take_slices(
    problem: Problem,
    state: State,
    value: int,
    buffer: int,
    use: int,
    slices: int,
    end: int,
    offset: int,
    free: bool,
) -> None:
    """Adds the stay, the slices and the copies of a prefetch in slices."""
    size, last = problem.buffer[buffer, B_SIZE], problem.use[use, U_TIME]
    starts = state.starts
    number = add_stay(state, value, FAST, starts[0] + 1, last, offset, -1)
    row = state.stay[number]
    row[A_COPY], row[A_BEGIN], row[A_DONE] = 1, starts[0], end
    row[A_LOW], row[A_SLICES] = state.counts[N_PARTS], slices
    for turn in range(slices):
        place = state.chosen[turn]
        low = 0
        for other in range(place):
            low += problem.slices[buffer, other]
        part = state.part[state.counts[N_PARTS]]
        state.counts[N_PARTS] += 1
        part[S_BEGIN], part[S_LOW], part[S_SIZE] = starts[turn], low, problem.slices[buffer, place]
        if starts[turn] < starts[slices - 1]:
            heaps.commit(state.heap, starts[turn] + 1, starts[slices - 1], offset + low, part[S_SIZE], number)
        need = 0 if free else part_need(problem, buffer, part[S_SIZE], size)
        add_copy(problem, state, 0, starts[turn], end, need, 1)
    heaps.commit(state.heap, starts[slices - 1] + 1, last, offset, size, number)
    state.serves[use] = number
