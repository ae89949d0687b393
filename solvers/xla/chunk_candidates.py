"""Offsets for a buffer that should stay as long as possible (XLA: `MsaAlgorithm::FindBestChunkCandidates`)."""

from ...env.compiled.kernel import routine
from .heap import NO_OFFSET, fit
from .interval_picker import can_stay
from .problem import Problem
from .sliced_allocation import fit_slices
from .state import State


@routine
def longest_fit(problem: Problem, state: State, first: int, slices: int) -> int:
    """Returns the offset that stays free for the most uses, or `NO_OFFSET`.

    Candidates end at the use at hand or at a later use that the buffer may stay for; a binary search finds the latest
    that fits.

    Args:
      problem: the program.
      state: `state.cut` holds sizes and starts of slices; its `chosen` receives the slice that comes at each.
      first: first time in fast memory.
      slices: number of slices, 0 for none.
    """
    now = state.now
    if now.offset != NO_OFFSET:
        time = problem.use[now.use].time
        if slices == 0:
            return fit(problem, state.heap, first, time, problem.buffer[now.buffer].bytes, now.offset)
        offset = fit_slices(problem, state.heap, state, slices, time, now.offset)
        for turn in range(slices):
            state.cut[turn].chosen = state.cut[turn].tried
        return offset
    buffer = problem.buffer[now.buffer]
    moments, earliest, end = problem.moment, buffer.first_moment, buffer.end_moment
    if now.members > 1:
        moments, earliest, end = state.joint, 0, now.moments
    time = problem.use[now.use].time
    while moments[earliest] < time:
        earliest += 1
    last = earliest
    while last + 1 < end and can_stay(problem, moments[last], moments[last + 1]):
        last += 1
    low, count = earliest, last + 1 - earliest
    best, best_time = NO_OFFSET, -1
    # An offset that fits up to the last use needs no search.
    at_once = last > earliest
    while count > 0:
        step = count - 1 if at_once else count // 2
        time = moments[low + step]
        if slices == 0:
            offset = fit(problem, state.heap, first, time, buffer.bytes, -1)
        else:
            offset = fit_slices(problem, state.heap, state, slices, time, -1)
        if offset != NO_OFFSET:
            if time > best_time:
                best, best_time = offset, time
                for turn in range(slices):
                    state.cut[turn].chosen = state.cut[turn].tried
            low += step + 1
            count -= step + 1
        else:
            count = step
        at_once = False
    return best
