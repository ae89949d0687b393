"""Offsets for a buffer that should stay as long as possible (XLA: `MsaAlgorithm::FindBestChunkCandidates`)."""

from ...env.compiled.jit import njit
from .heap import NO_OFFSET, fit
from .interval_picker import can_stay
from .problem import B_FIRST, B_LAST, B_SIZE, U_FROM, U_TIME, V_FIRST, V_LAST, Problem
from .sliced_allocation import fit_slices
from .state import State


@njit(cache=True, nogil=True)
def longest_fit(problem: Problem, state: State, buffer: int, use: int, first: int, slices: int) -> int:
    """Returns the offset that stays free for the most uses, or `NO_OFFSET`.

    Candidates end at `use` or at a later use that the buffer may stay for; a binary search finds the latest that fits.

    Args:
      problem: the program.
      state: `state.starts` holds the starts of slices; `state.chosen` receives the slice that comes at each.
      buffer: the buffer to fit.
      use: the use that it must serve.
      first: first time in fast memory.
      slices: number of slices, 0 for none.
    """
    values = problem.buffer[buffer]
    end_of_uses = problem.value[values[B_LAST] - 1, V_LAST]
    begin_of_uses = problem.value[values[B_FIRST], V_FIRST]
    earliest = use
    while earliest > begin_of_uses and problem.use[earliest - 1, U_TIME] == problem.use[use, U_TIME]:
        earliest -= 1
    last = earliest
    while last + 1 < end_of_uses and can_stay(problem, problem.use[last, U_TIME], problem.use[last + 1, U_FROM]):
        last += 1
    if last > earliest:  # an offset that fits up to the last use needs no search
        offset = _fit(problem, state, buffer, first, problem.use[last, U_TIME], slices, -1)
        if offset != NO_OFFSET:
            state.chosen[:slices] = state.order[:slices]
            return offset
        last -= 1
    low, count = earliest, last + 1 - earliest
    best, best_time = NO_OFFSET, -1
    while count > 0:
        step = count // 2
        time = problem.use[low + step, U_TIME]
        offset = _fit(problem, state, buffer, first, time, slices, -1)
        if offset != NO_OFFSET:
            if time > best_time:
                best, best_time = offset, time
                state.chosen[:slices] = state.order[:slices]
            low += step + 1
            count -= step + 1
        else:
            count = step
    return best


@njit(cache=True, nogil=True, forceinline=True)
def fit_at(
    problem: Problem, state: State, buffer: int, first: int, last: int, slices: int, preferred_offset: int
) -> int:
    """Returns `preferred_offset` if the buffer fits there over `first..last`, else `NO_OFFSET`."""
    offset = _fit(problem, state, buffer, first, last, slices, preferred_offset)
    state.chosen[:slices] = state.order[:slices]
    return offset


@njit(cache=True, nogil=True, forceinline=True)
def _fit(problem: Problem, state: State, buffer: int, first: int, last: int, slices: int, preferred_offset: int) -> int:
    size = problem.buffer[buffer, B_SIZE]
    if slices == 0:
        return fit(problem, state.heap, first, last, size, preferred_offset)
    return fit_slices(problem, state.heap, state, problem.slices[buffer, :slices], state.starts, last, preferred_offset)
