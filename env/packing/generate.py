"""Generates packing problems whose load equals the capacity at all times: a rectangle of time and bytes without a hole.

Cuts fit by construction. `crossed` turns cuts into problems of which it is not known whether they fit.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .problem import Packing, make_packing


class Cut(NamedTuple):
    """A cut rectangle. `offset` `[n]` is a solution of `packing`."""

    packing: Packing
    offset: NDArray[np.int64]


def guillotine(items: int, generator: np.random.Generator, times: int = 256, capacity: int = 1 << 20) -> Cut:
    """Cuts a rectangle into `items` by straight cuts through one piece at a time, larger pieces first.

    Args:
      items: number of items; fewer if pieces get too small to cut.
      generator: draws the cuts.
      times: length of the time axis.
      capacity: bytes.
    """
    pieces = [(0, times, 0, capacity)]
    while len(pieces) < items:
        area = np.array([(b - a) * (d - c) if b - a > 1 or d - c > 1 else 0 for a, b, c, d in pieces], float)
        if not area.any():
            break
        a, b, c, d = pieces.pop(int(generator.choice(len(pieces), p=area / area.sum())))
        share = generator.uniform(0.2, 0.8)
        across_time = b - a > 1 and (d - c == 1 or generator.random() < 0.5)
        if across_time:
            cut = a + min(max(round(share * (b - a)), 1), b - a - 1)
            pieces += [(a, cut, c, d), (cut, b, c, d)]
        else:
            cut = c + min(max(round(share * (d - c)), 1), d - c - 1)
            pieces += [(a, b, c, cut), (a, b, cut, d)]
    return _shuffled(pieces, capacity, generator)


def pinwheels(rounds: int, generator: np.random.Generator, times: int = 256, capacity: int = 1 << 20) -> Cut:
    """Cuts a rectangle into pinwheels of five, again and again: no straight cut goes through any of them.

    Args:
      rounds: number of pieces that are cut in five.
      generator: draws the cuts.
      times: length of the time axis.
      capacity: bytes.
    """
    pieces = [(0, times, 0, capacity)]
    for _ in range(rounds):
        area = np.array([(b - a) * (d - c) if b - a > 2 and d - c > 2 else 0 for a, b, c, d in pieces], float)
        if not area.any():
            break
        a, b, c, d = pieces.pop(int(generator.choice(len(pieces), p=area / area.sum())))
        t0, t1 = a + np.sort(generator.choice(np.arange(1, b - a), 2, replace=False))
        y0, y1 = c + np.sort(generator.choice(np.arange(1, d - c), 2, replace=False))
        pieces += [(a, t1, c, y0), (t1, b, c, y1), (t0, b, y1, d), (a, t0, y0, d), (t0, t1, y0, y1)]
    return _shuffled(pieces, capacity, generator)


def skyline(items: int, generator: np.random.Generator, times: int = 256, capacity: int = 1 << 20) -> Cut:
    """Fills a rectangle from the bottom: each item lies in the lowest valley of those before it, at one of its ends.

    Such a cut needs neither straight lines nor pinwheels; a third of the items end level with a neighbour.

    Args:
      items: number of items, about.
      generator: draws the items.
      times: length of the time axis.
      capacity: bytes.
    """
    share = items**-0.5
    pieces: list[tuple[int, int, int, int]] = []
    valleys = [(0, times, 0)]  # begin, end, height: side by side, no two neighbours level
    while True:
        k = min(range(len(valleys)), key=lambda k: valleys[k][2])
        a, b, height = valleys[k]
        if height == capacity:
            return _shuffled(pieces, capacity, generator)
        wide = min(b - a, max(1, round(times * share * generator.lognormal(0.0, 0.6))))
        left = bool(generator.random() < 0.5)
        beside = k - 1 if left or wide == b - a else k + 1
        top = height + max(1, round(capacity * share * generator.lognormal(0.0, 0.6)))
        if 0 <= beside < len(valleys) and generator.random() < 1 / 3:
            top = valleys[beside][2]
        if capacity - top < capacity * share / 8:
            top = capacity
        begin, end = (a, a + wide) if left else (b - wide, b)
        pieces.append((begin, end, height, top))
        cut = [(a, begin, height), (begin, end, top), (end, b, height)]
        valleys[k : k + 1] = [each for each in cut if each[0] < each[1]]
        valleys = _levelled(valleys)


def crossed(cut: Cut, crossings: int, generator: np.random.Generator) -> Packing:
    """Exchanges the ends of pairs of items of one size that are alive together: the load stays, the solution goes.

    Args:
      cut: what to begin with; give it a small capacity, since only items of one size can be crossed.
      crossings: pairs that are exchanged.
      generator: draws the pairs.
    """
    packing = cut.packing
    lower, upper, size = packing.span_lower, packing.span_upper.copy(), packing.size
    for _ in range(crossings):
        together = (lower[:, None] < upper[None, :]) & (lower[None, :] < upper[:, None])
        different = (lower[:, None] != lower[None, :]) & (upper[:, None] != upper[None, :])
        pairs = np.argwhere(together & different & (size[:, None] == size[None, :]))
        if not len(pairs):
            break
        i, j = pairs[generator.integers(len(pairs))]
        upper[i], upper[j] = upper[j], upper[i]
    return make_packing(lower, upper, size, packing.capacity)


def _levelled(valleys: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    joined = valleys[:1]
    for begin, end, height in valleys[1:]:
        if joined[-1][2] == height:
            joined[-1] = (joined[-1][0], end, height)
        else:
            joined.append((begin, end, height))
    return joined


def _shuffled(pieces: list[tuple[int, int, int, int]], capacity: int, generator: np.random.Generator) -> Cut:
    table = generator.permutation(np.array(pieces, np.int64))
    lower, upper, low, high = table.T
    return Cut(make_packing(lower, upper, high - low, capacity), low.copy())
