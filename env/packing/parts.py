"""Packing of items that are not whole all the time: a buffer that is fetched in slices takes room slice by slice.

By rules only, like `best_fit.py`: items in several orders, and orders in which those that did not fit come earlier. A
failure proves nothing.
"""

import time
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..compiled.sorting import ascending

# Rounds of one order in which what did not fit moves ahead, and how far apart two offsets are tried.
_ROUNDS = 24
_SHAKE = 0.3


@dataclass(frozen=True, eq=False)
class Parts:
    """Items to be packed. Shapes: `n` items, `k` parts, ascending by item.

    Attributes:
      item: `[k]`.
      lower, upper: `[k]` half-open times of a part.
      low, high: `[k]` the bytes of its item that it holds: at offset `o` it takes `o + low .. o + high`.
      floor: `[k]` bytes of memory it may not begin below.
      capacity, alignment: of the memory, and of offsets, in bytes.
    """

    item: NDArray[np.int64]
    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    floor: NDArray[np.int64]
    capacity: int
    alignment: int

    @property
    def start(self) -> NDArray[np.int64]:
        """`[n + 1]` the parts of item `i` are `start[i]:start[i + 1]`."""
        return np.searchsorted(self.item, np.arange(self.item.max(initial=-1) + 2)).astype(np.int64)


def pack_parts(parts: Parts, seconds: float | None, rounds: int | None = None) -> NDArray[np.int64] | None:
    """Returns offsets `[n]` in bytes that keep all parts apart and inside the memory; None if no rule finds any.

    Args:
      parts: the items.
      seconds: limit; None for none.
      rounds: limit of orders tried, which a slow machine does not change; None for none. One order is always tried.
    """
    start = parts.start
    items = len(start) - 1
    until = np.inf if seconds is None else time.perf_counter() + seconds
    area, size = np.zeros(items), np.zeros(items)
    np.add.at(area, parts.item, (parts.high - parts.low).astype(float) * (parts.upper - parts.lower))
    np.maximum.at(size, parts.item, (parts.high - parts.low).astype(float))
    whole = np.zeros(items)
    np.add.at(whole, parts.item, (parts.upper - parts.lower).astype(float))
    generator = np.random.default_rng(0)
    keys = [area, size, whole, area * size]
    tried = 0
    while True:
        for key in keys:
            urgency = np.log(np.maximum(key, 1.0))
            for number in range(_ROUNDS):
                if tried and (time.perf_counter() > until or (rounds is not None and tried >= rounds)):
                    return None
                tried += 1
                order = np.argsort(-urgency, kind="stable")
                offset, failed = _place(
                    order,
                    start,
                    parts.lower,
                    parts.upper,
                    parts.low,
                    parts.high,
                    parts.floor,
                    parts.capacity,
                    parts.alignment,
                    number % 2 == 1,
                )
                if not failed.any():
                    return offset
                urgency[failed] += 1.0 + 0.5 * number
        keys = [key * np.exp(_SHAKE * generator.standard_normal(items)) for key in keys]


@njit(cache=True)
def _place(
    order: np.ndarray,
    start: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    floor: np.ndarray,
    capacity: int,
    alignment: int,
    tightest: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Places items one by one; returns their offsets, and which found no room (their offset is -1)."""
    items = len(start) - 1
    offset = np.full(items, -1, np.int64)
    failed = np.zeros(items, np.bool_)
    first, past = np.zeros(items, np.int64), np.zeros(items, np.int64)
    for i in range(items):
        first[i], past[i] = lower[start[i]], upper[start[i]]
        for p in range(start[i], start[i + 1]):
            first[i], past[i] = min(first[i], lower[p]), max(past[i], upper[p])
    begins, ends = np.empty(len(lower), np.int64), np.empty(len(lower), np.int64)
    for i in order:
        least, most = np.int64(0), np.int64(2**62)
        for p in range(start[i], start[i + 1]):
            least = max(least, floor[p] - low[p])
            most = min(most, capacity - high[p])
        # Offsets above `begins` and below `ends` would lay a part of this item over one of another.
        count = 0
        for j in range(items):
            if offset[j] < 0 or past[j] <= first[i] or past[i] <= first[j]:
                continue
            for p in range(start[i], start[i + 1]):
                for q in range(start[j], start[j + 1]):
                    if lower[p] < upper[q] and lower[q] < upper[p]:
                        if count == len(begins):
                            begins = np.concatenate((begins, np.empty(count, np.int64)))
                            ends = np.concatenate((ends, np.empty(count, np.int64)))
                        begins[count] = offset[j] + low[q] - high[p]
                        ends[count] = offset[j] + high[q] - low[p]
                        count += 1
        edge = -(-least // alignment) * alignment
        best, best_gap = np.int64(-1), np.int64(2**62)
        for k in ascending(begins[:count]):
            if edge > most:
                break
            if begins[k] >= edge and (best < 0 or (tightest and begins[k] - edge < best_gap)):
                best, best_gap = edge, begins[k] - edge
            edge = max(edge, -(-ends[k] // alignment) * alignment)
        if edge <= most and (best < 0 or (tightest and most - edge < best_gap)):
            best = edge
        if best >= 0 and best <= most:
            offset[i] = best
        else:
            failed[i] = True
    return offset, failed
