"""The times at which prefetches and their slices start, and how long a stay may last.

XLA: `CostAnalysisPrefetchIntervalPicker` and `SlicedPrefetchStartTimePicker`.
"""

import numpy as np

from ...env.compiled.jit import njit
from .problem import L_FLAT, NEVER, R_LONGEST, R_MIN, R_PREFERRED, Problem

# At most so many starts are tried once all remaining ones are earlier.
_STEPS = np.float32(100.0)
# Each retry gives a write-back this much more time, in units of its first.
_RETRY = np.float32(2.0)

# Columns of a picker.
(
    P_EARLIEST,  # bounds of the starts
    P_LATEST,
    P_UP,  # next start in ascending order
    P_DOWN,  # next start in descending order
    P_RISING,  # 1: the next start is `P_UP`, else `P_DOWN`
    P_END,  # time of the use
) = range(6)


@njit(cache=True, nogil=True, forceinline=True)
def elapsed(problem: Problem, start: int, end: int) -> np.float32:
    """Returns the seconds between two times, both excluded, loops inside weighed (XLA: `GetLogicalIntervalElapsed`)."""
    if start >= end:
        return np.float32(0.0)
    start = max(start, 0)
    # `elapsed[t + 1]` includes the time `t`.
    seconds = problem.elapsed[end] - problem.elapsed[start + 1] if end > start else np.float32(0.0)
    if problem.limit[L_FLAT]:
        return seconds
    least = problem.nest[start]
    for t in range(start + 1, min(end, len(problem.nest) - 1) + 1):
        least = min(least, problem.nest[t])
    return seconds / problem.weight[least]


@njit(cache=True, nogil=True, forceinline=True)
def can_stay(problem: Problem, start: int, end: int) -> bool:
    """Returns whether a stay may last between two uses (XLA: `CanAllocateInAlternateMemoryNoCopy`)."""
    return problem.ratio[R_LONGEST] > elapsed(problem, start, end)


@njit(cache=True, nogil=True, forceinline=True)
def write_back_end(problem: Problem, copy_s: float, start: int, last: int, retry: int) -> int:
    """Returns the time by which a write-back should end, `last + 1` at most (XLA: `PreferredEvictionEndTime`)."""
    preferred_s = (np.float32(1.0) + _RETRY * np.float32(retry)) * problem.ratio[R_PREFERRED] * copy_s
    end = start + 1
    while end <= last and elapsed(problem, start, end) < preferred_s:
        end += 1
    return end


@njit(cache=True, nogil=True, forceinline=True)
def _level(problem: Problem, t: int) -> int:
    """Returns how many loops are around a time."""
    return problem.nest[min(max(t, 0), len(problem.nest) - 1)]


@njit(cache=True, nogil=True)
def latest_start(problem: Problem, copy_s: float, gain: float | np.float32, start: int, end: int) -> int:
    """Returns the latest start with enough time for the copy, else `start - 1` (XLA: `LatestPrefetchStartTime`)."""
    shortest = problem.ratio[R_MIN] * copy_s
    level = _level(problem, end)
    if problem.limit[L_FLAT]:
        low, high = start - 1, end - 1  # the latest lies between them
        while low < high:
            middle = (low + high + 1) // 2
            if shortest > elapsed(problem, middle, end) + gain:
                high = middle - 1
            else:
                low = middle
        return low
    t = end - 1
    while t >= start and (_level(problem, t) != level or shortest > elapsed(problem, t, end) + gain):
        t -= 1
    return t


@njit(cache=True, nogil=True)
def begin(
    problem: Problem,
    picker: np.ndarray,
    copy_s: float,
    gain: float | np.float32,
    start: int,
    end: int,
    preferred_time: int,
) -> None:
    """Sets a picker to the starts of a prefetch (XLA: `Begin`).

    Args:
      problem: the program.
      picker: overwritten.
      copy_s: seconds that the copy is expected to take.
      gain: seconds that serving the use from fast memory saves.
      start: the earliest start.
      end: time of the use.
      preferred_time: the first start to try, or `NEVER` for the picker's own.
    """
    latest = latest_start(problem, copy_s, gain, start, end)
    level = _level(problem, end)
    earliest = start
    longest = problem.ratio[R_LONGEST]
    if problem.limit[L_FLAT]:
        low, high = earliest, max(latest, earliest)
        while low < high:
            middle = (low + high) // 2
            if longest < elapsed(problem, middle, end):
                low = middle + 1
            else:
                high = middle
        earliest = low
    else:
        while earliest < latest and (_level(problem, earliest) != level or longest < elapsed(problem, earliest, end)):
            earliest += 1
    picker[P_EARLIEST], picker[P_LATEST], picker[P_END] = earliest, latest, end
    if earliest > latest:
        picker[P_UP], picker[P_DOWN], picker[P_RISING] = earliest, latest, 1
        return
    first = preferred_time
    if preferred_time == NEVER or preferred_time > latest:
        first = preferred_start(problem, copy_s, earliest, latest, end)
    picker[P_UP], picker[P_DOWN], picker[P_RISING] = first, first, 1
    next_start(problem, picker)


@njit(cache=True, nogil=True)
def preferred_start(problem: Problem, copy_s: float, earliest: int, latest: int, end: int) -> int:
    """Returns the start whose seconds to the end are nearest to the preferred ones (XLA: `PreferredPrefetchStartTime`).

    Of equally near ones, the first.
    """
    target = problem.ratio[R_PREFERRED] * copy_s
    level = _level(problem, end)
    if problem.limit[L_FLAT]:
        low, high = earliest, latest + 1  # the first start within the target
        while low < high:
            middle = (low + high) // 2
            if elapsed(problem, middle, end) <= target:
                high = middle
            else:
                low = middle + 1
        if low == earliest:
            return earliest
        before = elapsed(problem, low - 1, end)
        if low <= latest and abs(target - elapsed(problem, low, end)) < abs(target - before):
            return low
        high = low - 1  # the first start with the same seconds
        low = earliest
        while low < high:
            middle = (low + high) // 2
            if elapsed(problem, middle, end) <= before:
                high = middle
            else:
                low = middle + 1
        return low
    best, best_s = earliest, elapsed(problem, earliest, end)
    for t in range(earliest + 1, latest + 1):
        seconds = elapsed(problem, t, end)
        if _level(problem, t) == level and abs(target - seconds) < abs(target - best_s):
            best, best_s = t, seconds
    return best


@njit(cache=True, nogil=True, forceinline=True)
def is_done(picker: np.ndarray) -> bool:
    """Returns whether all starts have been tried (XLA: `Done`)."""
    return picker[P_UP] > picker[P_LATEST] and picker[P_DOWN] < picker[P_EARLIEST]


@njit(cache=True, nogil=True)
def next_start(problem: Problem, picker: np.ndarray) -> int:
    """Returns the next start (XLA: `Next`): later and earlier ones in turn, then earlier ones in growing steps."""
    end = picker[P_END]
    level = _level(problem, end)
    if picker[P_RISING]:
        start = picker[P_UP]
        picker[P_UP] += 1
        while picker[P_UP] <= picker[P_LATEST] and _level(problem, picker[P_UP]) != level:
            picker[P_UP] += 1
        if picker[P_DOWN] >= picker[P_EARLIEST]:
            picker[P_RISING] = 0
        return start
    start = picker[P_DOWN]
    picker[P_DOWN] -= 1
    target = np.float32(0.0)
    if picker[P_UP] > picker[P_LATEST]:
        target = elapsed(problem, start, end) + elapsed(problem, picker[P_EARLIEST], end) / _STEPS
    while picker[P_DOWN] >= picker[P_EARLIEST] and (
        _level(problem, picker[P_DOWN]) != level or elapsed(problem, picker[P_DOWN], end) < target
    ):
        picker[P_DOWN] -= 1
    if picker[P_UP] <= picker[P_LATEST]:
        picker[P_RISING] = 1
    return start


@njit(cache=True, nogil=True)
def slice_starts(problem: Problem, start: int, end: int, count: int, starts: np.ndarray) -> None:
    """Spreads the starts of slices evenly over the seconds from `start` to `end`.

    `starts[:count]` receives them, in ascending order; slices start at the nesting depth of `start` only.
    """
    starts[:count] = start
    whole = elapsed(problem, start, end)
    if count < 2 or start >= end - 2 or whole <= 0:
        return
    level = problem.nest[max(start, 0)]
    found, last, t = 1, start, start
    while t < end - 1 and found < count:
        target = whole * np.float32(count - found) / np.float32(count)
        if elapsed(problem, t, end) < target:
            starts[found] = last
            found += 1
            continue
        moves = last != t and elapsed(problem, last, t + 1) > 0
        if moves and problem.nest[max(t, 0)] == level:
            last = t
        t += 1
    starts[found:count] = last
