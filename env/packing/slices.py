"""Packs buffers that are fetched in slices: such an item takes memory slice by slice.

By rules only, as in `best_fit.py`: items in several orders, then orders in which items that did not fit come earlier. A
failure proves nothing.
"""

import time
from dataclasses import dataclass

import numpy as np
from numba import types
from numpy.typing import NDArray

from ..compiled.kernel import kernel, vector
from ..compiled.sorting import ascending

# Rounds of one order, in each of which the items that did not fit move ahead; strength of the perturbation of an order.
_ROUNDS = 24
_SHAKE = 0.3


@dataclass(frozen=True, eq=False)
class Slices:
    """Items to be packed. Shapes: `n` items, `k` slices, ascending by item.

    Attributes:
      item: `[k]` item of the slice.
      lower, upper: `[k]` half-open times of the slice.
      low, high: `[k]` bytes of the item in the slice: at offset `o` it takes `o + low .. o + high`.
      floor: `[k]` lowest byte of memory it may take.
      capacity: bytes of the memory.
      alignment: offsets are multiples of this many bytes.
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
        """`[n + 1]` the slices of item `i` are `start[i]:start[i + 1]`."""
        return np.searchsorted(self.item, np.arange(self.item.max(initial=-1) + 2)).astype(np.int64)


def pack_slices(slices: Slices, seconds: float | None, rounds: int | None = None) -> NDArray[np.int64] | None:
    """Returns offsets `[n]` in bytes that keep all slices apart and inside the memory; None if no rule finds any.

    Args:
      slices: the problem.
      seconds: limit; None for none.
      rounds: most orders tried, the same on every machine; None for no limit. One order is always tried.
    """
    start = slices.start
    items = len(start) - 1
    until = np.inf if seconds is None else time.perf_counter() + seconds
    area, size = np.zeros(items), np.zeros(items)
    np.add.at(area, slices.item, (slices.high - slices.low).astype(float) * (slices.upper - slices.lower))
    np.maximum.at(size, slices.item, (slices.high - slices.low).astype(float))
    whole = np.zeros(items)
    np.add.at(whole, slices.item, (slices.upper - slices.lower).astype(float))
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
                    slices.lower,
                    slices.upper,
                    slices.low,
                    slices.high,
                    slices.floor,
                    slices.capacity,
                    slices.alignment,
                    number % 2 == 1,
                )
                if not failed.any():
                    return offset
                urgency[failed] += 1.0 + 0.5 * number
        keys = [key * np.exp(_SHAKE * generator.standard_normal(items)) for key in keys]


_INTS = vector(np.int64)


@kernel(_INTS, _INTS, _INTS, _INTS, _INTS, _INTS, _INTS, int, int, bool, returns=types.Tuple((_INTS, vector(np.bool_))))
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
    """Places items one by one; returns their offsets and, per item, whether it did not fit (its offset is then -1)."""
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
        # Offsets above `begins` and below `ends` would lay a slice of this item over one of another.
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
