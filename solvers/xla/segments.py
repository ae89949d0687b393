"""The steps from one use of a value to the next (XLA: `MsaAlgorithm::AllocateSegment`).

A value is kept in fast memory; else it is written back, once, and prefetched for the use; else it is read from HBM.
"""

import numpy as np

from ...env.compiled.jit import njit
from . import heap as heaps
from .chunk_candidates import fit_at, longest_fit
from .copy_resource import has_enough, outstanding
from .heap import NO_OFFSET, latest_free
from .interval_picker import can_stay, write_back_end
from .prefetch import prefetch
from .problem import (
    B_COPY,
    B_FIRST,
    B_LAST,
    B_SIZE,
    L_RETRIES,
    L_WRITE_BACKS,
    M_DEFAULT,
    M_KEEP,
    U_FROM,
    U_HBM,
    U_LATEST,
    U_MODE,
    U_NEXT,
    U_TIME,
    V_BUFFER,
    V_FIRST,
    V_HBM,
    V_LAST,
    V_TIME,
    Problem,
)
from .state import (
    A_BEGIN,
    A_COPY,
    A_DONE,
    A_END,
    A_FAST,
    A_GROUP,
    A_OFFSET,
    A_START,
    DONE,
    FAST,
    FREE,
    HBM,
    N_STAYS,
    NO_COPIES,
    NO_MEMORY,
    NOT_FAST,
    TOO_LONG,
    UNDO,
    State,
    add_copy,
    add_stay,
)


@njit(cache=True, nogil=True)
def place_buffer(problem: Problem, state: State, buffer: int, retry: int, preferred_time: np.ndarray) -> int:
    """Places all values of a buffer (XLA: `AllocateAllocationValues`); returns results as bits."""
    first, last = problem.buffer[buffer, B_FIRST], problem.buffer[buffer, B_LAST]
    for value in range(first, last):
        state.begin[value, 0] = FREE
    result = DONE
    for value in range(first, last):
        row = problem.value[value]
        state.span[value, 0] = state.span[value, 1] = state.counts[N_STAYS]
        before = row[V_TIME]
        for use in range(row[V_FIRST], row[V_LAST]):
            result |= _segment(problem, state, value, use, before, retry, preferred_time[use])
            if result & UNDO:
                return result
            before = problem.use[use, U_TIME]
            following = problem.use[use, U_NEXT]
            if following >= 0 and not _hand_on(problem, state, value, use, following):
                return result | UNDO
        if row[V_FIRST] == row[V_LAST] and state.begin[value, 0] == FAST:
            add_stay(state, value, FAST, row[V_TIME], row[V_TIME], state.begin[value, 1], state.begin[value, 2])
    return result


@njit(cache=True, nogil=True, forceinline=True)
def _must_begin(problem: Problem, state: State, value: int) -> int:
    """Returns the memory in which a value must begin, or `FREE`."""
    if problem.value[value, V_HBM] or state.stay_out[value]:
        return HBM
    return state.begin[value, 0]


@njit(cache=True, nogil=True, forceinline=True)
def _hand_on(problem: Problem, state: State, value: int, use: int, following: int) -> bool:
    """Makes the value that is written in place begin where this use finds the buffer; returns whether it may."""
    held = live_at(state, value, problem.use[use, U_TIME])
    if held < 0:
        return True
    fast = FAST if state.stay[held, A_FAST] else HBM
    required = _must_begin(problem, state, following)
    if required == HBM and fast == FAST:
        return False
    if required == FAST and (fast == HBM or state.begin[following, 1] != state.stay[held, A_OFFSET]):
        return False
    state.begin[following, 0] = fast
    state.begin[following, 1] = state.stay[held, A_OFFSET]
    state.begin[following, 2] = state.stay[held, A_GROUP]
    return True


@njit(cache=True, nogil=True, forceinline=True)
def live_at(state: State, value: int, time: int) -> int:
    """Returns the last stay of a value that includes a time, or -1."""
    for number in range(state.span[value, 1] - 1, state.span[value, 0] - 1, -1):
        if state.stay[number, A_START] <= time <= state.stay[number, A_END]:
            return number
    return -1


@njit(cache=True, nogil=True, forceinline=True)
def _last_in(state: State, value: int, fast: int) -> int:
    """Returns the last stay of a value in one memory, or -1."""
    for number in range(state.span[value, 1] - 1, state.span[value, 0] - 1, -1):
        if state.stay[number, A_FAST] == fast:
            return number
    return -1


@njit(cache=True, nogil=True)
def _segment(problem: Problem, state: State, value: int, use: int, before: int, retry: int, preferred_time: int) -> int:
    """Serves one use, the time of the use before it being `before`; returns results as bits."""
    row = problem.use[use]
    end = row[U_TIME]
    start = min(before, end)
    if start == end and state.span[value, 1] > state.span[value, 0]:
        state.serves[use] = live_at(state, value, end)
        return DONE
    at_start, at_end = FREE, FREE
    first = problem.value[value, V_FIRST]
    if use == first:
        at_start = _must_begin(problem, state, value)
    else:
        for other in range(use - 1, first - 1, -1):
            if problem.use[other, U_TIME] != start:
                break
            if state.use_out[other]:
                at_start = HBM
    if row[U_HBM] or state.use_out[use]:
        at_end = HBM
    elif row[U_NEXT] >= 0:
        at_end = _must_begin(problem, state, row[U_NEXT])
    if at_start != FREE:
        there = _last_in(state, value, at_start)
        if there >= 0:
            state.stay[there, A_END] = max(state.stay[there, A_END], start)
        elif at_start == HBM:
            add_stay(state, value, HBM, start, start, NO_OFFSET, -1)
        else:
            add_stay(state, value, FAST, start, start, state.begin[value, 1], state.begin[value, 2])
    result = DONE
    mode = row[U_MODE]
    if at_start != HBM and at_end != HBM and mode != M_DEFAULT:
        result = _keep(problem, state, value, use, start, mode == M_KEEP)
        if result == DONE:
            return DONE
    source = _last_in(state, value, HBM)
    if source < 0:
        if state.span[value, 1] > state.span[value, 0]:
            failed = _write_back(problem, state, value, use, retry)
            if failed != DONE:
                return result | failed | UNDO
            source = state.span[value, 1] - 1
        else:
            source = add_stay(state, value, HBM, start, end, NO_OFFSET, -1)
    if at_end != HBM and mode != M_DEFAULT:
        failed = prefetch(problem, state, value, problem.value[value, V_BUFFER], use, source, preferred_time)
        if failed == DONE:
            return DONE
        result |= failed
    if at_end == FAST:
        return result | UNDO
    state.stay[source, A_END] = max(state.stay[source, A_END], end)
    state.serves[use] = source
    return result


@njit(cache=True, nogil=True)
def _keep(problem: Problem, state: State, value: int, use: int, start: int, even_long: bool) -> int:
    """Keeps a value in fast memory up to a use (XLA: `AllocateInAlternateMemoryNoCopy`)."""
    buffer = problem.value[value, V_BUFFER]
    size, end = problem.buffer[buffer, B_SIZE], problem.use[use, U_TIME]
    held = state.span[value, 1] - 1 if state.span[value, 1] > state.span[value, 0] else -1
    if held >= 0 and not state.stay[held, A_FAST]:
        return NOT_FAST
    if not even_long and not can_stay(problem, start, problem.use[use, U_FROM]):
        return TOO_LONG
    if held >= 0:
        first = state.stay[held, A_END] + 1
        offset = fit_at(problem, state, buffer, first, end, 0, state.stay[held, A_OFFSET])
    else:
        first = start
        offset = longest_fit(problem, state, buffer, use, first, 0)
    if offset == NO_OFFSET:
        return NO_MEMORY
    if held >= 0:
        state.stay[held, A_END] = max(state.stay[held, A_END], end)
    else:
        held = add_stay(state, value, FAST, start, end, offset, -1)
    heaps.commit(state.heap, first, end, offset, size, held)
    state.serves[use] = held
    return DONE


@njit(cache=True, nogil=True)
def _write_back(problem: Problem, state: State, value: int, use: int, retry: int) -> int:
    """Writes a value back from its definition on (XLA: `Evict`)."""
    buffer = problem.value[value, V_BUFFER]
    held = state.span[value, 1] - 1
    row = state.stay[held]
    begin, end, offset = row[A_START], row[A_END], row[A_OFFSET]
    size = problem.buffer[buffer, B_SIZE]
    deadline = write_back_end(problem, problem.buffer_s[buffer], begin, problem.use[use, U_TIME], retry)
    deadline = min(max(deadline, end), problem.use[use, U_LATEST])
    first = end + 1
    if deadline > end:
        end = max(end, latest_free(state.heap, first, deadline, offset, size))
    need = problem.buffer[buffer, B_COPY]
    resource = state.write_backs
    if not has_enough(resource, problem.supply, begin, end, need):
        if retry == problem.limit[L_RETRIES] - 1:
            need = 0
        if not has_enough(resource, problem.supply, begin, end, need):
            return NO_COPIES
    if end == begin or outstanding(resource, begin + 1, end) + 1 >= problem.limit[L_WRITE_BACKS]:
        return NO_COPIES
    heaps.commit(state.heap, first, end, offset, size, held)
    row[A_END] = end
    number = add_stay(state, value, HBM, begin + 1, end, NO_OFFSET, -1)
    copy = state.stay[number]
    copy[A_COPY], copy[A_BEGIN], copy[A_DONE] = 1, begin, end
    add_copy(problem, state, 1, begin, end, need, 0)
    return DONE
