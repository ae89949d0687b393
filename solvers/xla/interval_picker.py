"""The times at which prefetches and their slices start, and how long a stay may last.

XLA: `CostAnalysisPrefetchIntervalPicker` and `SlicedPrefetchStartTimePicker`.
"""

from typing import Any

import numpy as np

from ...env.compiled.kernel import routine
from ...env.compiled.struct import Rows
from .problem import NEVER, Problem

# At most so many starts are tried once all remaining ones are earlier.
_STEPS = np.float32(100.0)
# Each retry gives a write-back this much more time, in units of its first.
_RETRY = np.float32(2.0)

# The starts of one prefetch.
PICKER = np.dtype(
    [
        ("earliest", np.int64),  # bounds of the starts
        ("latest", np.int64),
        ("up", np.int64),  # next start in ascending order
        ("down", np.int64),  # next start in descending order
        ("rising", np.int64),  # 1: the next start is `up`, else `down`
        ("end", np.int64),  # time of the use
    ],
    align=True,
)


@routine
def elapsed(problem: Problem, start: int, end: int) -> np.float32:
    """Returns the seconds between two times, both excluded, loops inside weighed (XLA: `GetLogicalIntervalElapsed`)."""
    if start >= end:
        return np.float32(0.0)
    start = max(start, 0)
    # `elapsed[t + 1]` includes the time `t`.
    seconds = problem.elapsed[end] - problem.elapsed[start + 1] if end > start else np.float32(0.0)
    if problem.limit.is_flat:
        return seconds
    last = min(end, len(problem.nest) - 1)
    outermost = start
    while problem.outside[outermost] <= last:
        outermost = problem.outside[outermost]
    return seconds / problem.weight[outermost]


@routine
def can_stay(problem: Problem, start: int, end: int) -> bool:
    """Returns whether a stay may last between two uses (XLA: `CanAllocateInAlternateMemoryNoCopy`)."""
    return problem.limit.longest_s > elapsed(problem, start, end)


@routine
def write_back_end(problem: Problem, copy_s: np.float32, start: int, last: int, retry: int) -> int:
    """Returns the time by which a write-back should end, `last + 1` at most (XLA: `PreferredEvictionEndTime`)."""
    preferred_s = (np.float32(1.0) + _RETRY * np.float32(retry)) * problem.limit.preferred_overlap * copy_s
    end = start + 1
    while end <= last and elapsed(problem, start, end) < preferred_s:
        end += 1
    return end


@routine
def _level(problem: Problem, t: int) -> int:
    """Returns how many loops are around a time."""
    return problem.nest[min(max(t, 0), len(problem.nest) - 1)]


@routine
def latest_start(problem: Problem, copy_s: np.float32, gain_s: np.float32, start: int, end: int) -> int:
    """Returns the latest start with enough time for the copy, else `start - 1` (XLA: `LatestPrefetchStartTime`)."""
    shortest = problem.limit.least_overlap * copy_s
    if problem.limit.is_flat:
        low, high = start - 1, end - 1  # the latest lies between them
        while low < high:
            middle = (low + high + 1) >> 1
            if shortest > elapsed(problem, middle, end) + gain_s:
                high = middle - 1
            else:
                low = middle
        return low
    level = _level(problem, end)
    t = end - 1
    while t >= start and (_level(problem, t) != level or shortest > elapsed(problem, t, end) + gain_s):
        t -= 1
    return t


@routine
def begin(
    problem: Problem,
    picker: Any,
    copy_s: np.float32,
    gain_s: np.float32,
    start: int,
    end: int,
    preferred_time: int,
) -> None:
    """Sets a picker to the starts of a prefetch (XLA: `Begin`).

    Args:
      problem: the program.
      picker: `PICKER`, overwritten.
      copy_s: seconds that the copy is expected to take.
      gain_s: seconds that serving the use from fast memory saves.
      start: the earliest start.
      end: time of the use.
      preferred_time: the first start to try, or `NEVER` for the picker's own.
    """
    latest = latest_start(problem, copy_s, gain_s, start, end)
    longest = problem.limit.longest_s
    # The later the start, the fewer the seconds, also where loops weigh them: fewer times, and none further out.
    low, high = start, max(latest, start)
    while low < high:
        middle = (low + high) >> 1
        if longest < elapsed(problem, middle, end):
            low = middle + 1
        else:
            high = middle
    earliest = low
    if not problem.limit.is_flat:
        level = _level(problem, end)
        while earliest < latest and _level(problem, earliest) != level:
            earliest += 1
    picker.earliest, picker.latest, picker.end, picker.rising = earliest, latest, end, 1
    if earliest > latest:
        picker.up, picker.down = earliest, latest
        return
    first = preferred_time
    if preferred_time == NEVER or preferred_time > latest:
        first = preferred_start(problem, copy_s, earliest, latest, end)
    picker.up, picker.down = first, first
    next_start(problem, picker)


@routine
def preferred_start(problem: Problem, copy_s: np.float32, earliest: int, latest: int, end: int) -> int:
    """Returns the start whose seconds to the end are nearest to the preferred ones (XLA: `PreferredPrefetchStartTime`).

    Of equally near ones, the first.
    """
    target = problem.limit.preferred_overlap * copy_s
    if problem.limit.is_flat:
        low, high = earliest, latest + 1  # the first start within the target
        while low < high:
            middle = (low + high) >> 1
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
            middle = (low + high) >> 1
            if elapsed(problem, middle, end) <= before:
                high = middle
            else:
                low = middle + 1
        return low
    level = _level(problem, end)
    best, best_s = earliest, elapsed(problem, earliest, end)
    for t in range(earliest + 1, latest + 1):
        seconds = elapsed(problem, t, end)
        if _level(problem, t) == level and abs(target - seconds) < abs(target - best_s):
            best, best_s = t, seconds
    return best


@routine
def is_done(picker: Any) -> bool:
    """Returns whether all starts have been tried (XLA: `Done`)."""
    return picker.up > picker.latest and picker.down < picker.earliest


@routine
def next_start(problem: Problem, picker: Any) -> int:
    """Returns the next start (XLA: `Next`): later and earlier ones in turn, then earlier ones in growing steps."""
    end = picker.end
    level = _level(problem, end)
    if picker.rising:
        start = picker.up
        picker.up += 1
        while picker.up <= picker.latest and _level(problem, picker.up) != level:
            picker.up += 1
        if picker.down >= picker.earliest:
            picker.rising = 0
        return start
    start = picker.down
    picker.down -= 1
    target = np.float32(0.0)
    if picker.up > picker.latest:
        target = elapsed(problem, start, end) + elapsed(problem, picker.earliest, end) / _STEPS
    while picker.down >= picker.earliest and (
        _level(problem, picker.down) != level or elapsed(problem, picker.down, end) < target
    ):
        picker.down -= 1
    if picker.up <= picker.latest:
        picker.rising = 1
    return start


@routine
def slice_starts(problem: Problem, start: int, end: int, count: int, cut: Rows) -> None:
    """Spreads the starts of slices evenly over the seconds from `start` to `end`.

    `cut[:count].start` receives them, in ascending order; slices start at the nesting depth of `start` only.
    """
    for turn in range(count):
        cut[turn].start = start
    whole = elapsed(problem, start, end)
    if count < 2 or start >= end - 2 or whole <= 0:
        return
    level = problem.nest[max(start, 0)]
    found, last, t = 1, start, start
    while t < end - 1 and found < count:
        target = whole * np.float32(count - found) / np.float32(count)
        if elapsed(problem, t, end) < target:
            cut[found].start = last
            found += 1
            continue
        moves = last != t and elapsed(problem, last, t + 1) > 0
        if moves and problem.nest[max(t, 0)] == level:
            last = t
        t += 1
    for turn in range(found, count):
        cut[turn].start = last
