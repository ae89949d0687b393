"""Sorting and searching in compiled code.

Numba builds `np.argsort`, `np.sort` and `np.searchsorted` from inner functions whose names are unique within one
process only. Code cached by one process and loaded by another may be linked with the other's functions: the same
sources then sort correctly or not from run to run (docs/decisions/0007-sorting.md). These are plain functions instead.
"""

import numpy as np

from .kernel import routine
from .struct import Rows

# Runs of this length are sorted by insertion before they are merged.
_RUN = 16


@routine
def ascending(keys: np.ndarray) -> np.ndarray:
    """Returns `[n]` the stable order that sorts `keys[n]`, as a stable `np.argsort`."""
    count = len(keys)
    order, other = np.arange(count), np.empty(count, np.int64)
    for begin in range(0, count, _RUN):
        for k in range(begin + 1, min(begin + _RUN, count)):
            place, place_key = order[k], keys[order[k]]
            j = k
            while j > begin and keys[order[j - 1]] > place_key:
                order[j] = order[j - 1]
                j -= 1
            order[j] = place
    width = _RUN
    while width < count:
        for begin in range(0, count, 2 * width):
            middle, end = min(begin + width, count), min(begin + 2 * width, count)
            left, right = begin, middle
            for k in range(begin, end):
                if left < middle and (right >= end or keys[order[left]] <= keys[order[right]]):
                    other[k] = order[left]
                    left += 1
                else:
                    other[k] = order[right]
                    right += 1
        order, other = other, order
        width *= 2
    return order


@routine
def sort_rows(keys: Rows, order: Rows, spare: Rows, count: int) -> None:
    """Fills `order[:count]` with the stable order that sorts `keys[:count]`; all are rows of whole numbers of a
    structure, and `spare` is overwritten."""
    for begin in range(0, count, _RUN):
        for k in range(begin, min(begin + _RUN, count)):
            key = keys[k]
            j = k
            while j > begin and keys[order[j - 1]] > key:
                order[j] = order[j - 1]
                j -= 1
            order[j] = k
    width = _RUN
    while width < count:
        for begin in range(0, count - width, 2 * width):
            middle, end = begin + width, min(begin + 2 * width, count)
            if keys[order[middle - 1]] <= keys[order[middle]]:
                continue  # sorted already, as much of what comes here is
            left, right = begin, middle
            for k in range(begin, end):
                if left < middle and (right >= end or keys[order[left]] <= keys[order[right]]):
                    spare[k] = order[left]
                    left += 1
                else:
                    spare[k] = order[right]
                    right += 1
            for k in range(begin, end):
                order[k] = spare[k]
        width *= 2


@routine
def first_at_least(keys: np.ndarray, key: float) -> int:
    """Returns the first place of ascending `keys` that is not below `key` (`np.searchsorted`, left)."""
    low, high = 0, len(keys)
    while low < high:
        middle = (low + high) // 2
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low


@routine
def first_above(keys: np.ndarray, key: float) -> int:
    """Returns the first place of ascending `keys` that is above `key` (`np.searchsorted`, right)."""
    low, high = 0, len(keys)
    while low < high:
        middle = (low + high) // 2
        if keys[middle] <= key:
            low = middle + 1
        else:
            high = middle
    return low
