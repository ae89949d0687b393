"""Disjoint spans of bytes in compiled code, sorted by where they begin."""

import numpy as np

from .kernel import routine
from .struct import Rows

# Its lower end, and its upper end, which it does not hold.
SPAN = np.dtype([("low", np.int64), ("high", np.int64)], align=True)


@routine
def first_above(spans: Rows, count: int, position: int | np.int64) -> int:
    """Returns the first of `count` disjoint spans, sorted, whose upper end is above `position`; `count` for none."""
    begin, end = 0, count
    while begin < end:
        middle = (begin + end) // 2
        if spans[middle].high <= position:
            begin = middle + 1
        else:
            end = middle
    return begin


@routine
def first_at_least(spans: Rows, count: int, position: int | np.int64) -> int:
    """Returns the first of `count` disjoint spans, sorted, whose lower end is not below `position`; `count` for
    none."""
    begin, end = 0, count
    while begin < end:
        middle = (begin + end) // 2
        if spans[middle].low < position:
            begin = middle + 1
        else:
            end = middle
    return begin


@routine
def add_span(spans: Rows, count: int, low: int | np.int64, high: int | np.int64) -> int:
    """Adds the bytes `low..high` to `count` disjoint spans, sorted, and returns how many there are then.

    Spans that touch become one. Bytes that were in use at any time of a window lie close together: hundreds of
    residencies leave a few spans, which is why they are not collected and sorted.
    """
    begin = first_above(spans, count, low - 1)
    end = begin
    while end < count and spans[end].low <= high:
        low = min(low, spans[end].low)
        high = max(high, spans[end].high)
        end += 1
    if end == begin:
        for k in range(count, begin, -1):
            spans[k].low = spans[k - 1].low
            spans[k].high = spans[k - 1].high
    elif end > begin + 1:
        for k in range(end, count):
            spans[begin + 1 + k - end].low = spans[k].low
            spans[begin + 1 + k - end].high = spans[k].high
    spans[begin].low = low
    spans[begin].high = high
    return count + 1 - (end - begin)
