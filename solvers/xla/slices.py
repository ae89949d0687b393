"""When the slices of a prefetch start (XLA: `SlicedPrefetchStartTimePicker`)."""

import numpy as np
from numba import njit

from .picker import elapsed
from .problem import Problem


@njit(cache=True, nogil=True)
def slice_starts(problem: Problem, start: int, end: int, count: int, starts: np.ndarray) -> None:
    """Spreads `count` starts so that each slice leaves its share of the seconds between `start` and `end` behind it."""
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
