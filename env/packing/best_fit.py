"""Packs by rules: items in a fixed order, each into the tightest or the lowest gap that is free over its spans."""

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..compiled.kernel import kernel, vector
from ..compiled.sorting import ascending
from .problem import Packing


@dataclass(frozen=True, eq=False)
class Placed:
    """A packing that ignores the capacity.

    Attributes:
      offsets: `[n]` bytes.
      peak: highest byte in use.
      rule: names of the order and the fit.
    """

    offsets: NDArray[np.int64]
    peak: int
    rule: str


def best_fit(packing: Packing) -> Placed:
    """Returns the packing with the lowest peak among those of all rules."""
    best: Placed | None = None
    for (name, order), tightest in itertools.product(orders(packing).items(), (True, False)):
        units = _place(order, packing.units, packing.lowest, *packing.conflicts, tightest)
        offsets = units * packing.alignment
        peak = int((offsets + packing.size).max(initial=0))
        if best is None or peak < best.peak:
            best = Placed(offsets, peak, f"{name}, {'tightest' if tightest else 'lowest'} gap")
    assert best is not None
    return best


def orders(packing: Packing) -> dict[str, NDArray[np.int64]]:
    """Returns orders of the items, `[n]` each, named by their first keys."""
    size = packing.units
    wide = np.zeros(packing.items, np.int64)
    np.add.at(wide, packing.span_item, packing.span_upper - packing.span_lower)
    area = wide * size
    begin = packing.span_lower[packing.span_start[:-1]]
    load = heaviest_section(packing)
    return {
        "size": np.lexsort((-wide, -size)),
        "time": np.lexsort((-size, -wide)),
        "area": np.lexsort((-size, -area)),
        "load": np.lexsort((-area, -wide, -load)),
        "load then area": np.lexsort((-wide, -area, -load)),
        "begin": np.lexsort((-size, begin)),
    }


def heaviest_section(packing: Packing) -> NDArray[np.int64]:
    """Returns `[n]` the most units alive at once during each item, its own included."""
    first, past = packing.span_section
    change = np.zeros(packing.sections + 1, np.int64)
    np.add.at(change, first, packing.units[packing.span_item])
    np.add.at(change, past, -packing.units[packing.span_item])
    load = np.cumsum(change)
    heaviest = np.zeros(packing.items, np.int64)
    for owner, a, b in zip(packing.span_item, first, past, strict=True):
        heaviest[owner] = max(heaviest[owner], load[a:b].max())
    return heaviest


_INTS = vector(np.int64)


@kernel(_INTS, _INTS, _INTS, _INTS, _INTS, bool, returns=_INTS)
def _place(
    order: np.ndarray, size: np.ndarray, lowest: np.ndarray, first: np.ndarray, second: np.ndarray, tightest: bool
) -> np.ndarray:
    offset = np.full(len(size), -1, np.int64)
    low = np.zeros(len(size), np.int64)
    high = np.zeros(len(size), np.int64)
    for i in order:
        count = 0
        for k in range(first[i], first[i + 1]):
            j = second[k]
            if offset[j] >= 0:
                low[count] = offset[j]
                high[count] = offset[j] + size[j]
                count += 1
        best, best_gap = np.int64(-1), np.int64(2**62)
        edge = lowest[i]
        for k in ascending(low[:count]):
            gap = low[k] - edge
            if gap >= size[i] and (best < 0 or (tightest and gap < best_gap)):
                best, best_gap = edge, gap
            edge = max(edge, high[k])
        offset[i] = best if best >= 0 else edge
    return offset
