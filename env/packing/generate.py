"""Generates packing problems that fit exactly: a rectangle of time and bytes, cut into items without a hole.

The load is the capacity at every moment, as in the challenging instances of the MiniMalloc paper, which are not ours to
ship.
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


def _shuffled(pieces: list[tuple[int, int, int, int]], capacity: int, generator: np.random.Generator) -> Cut:
    table = generator.permutation(np.array(pieces, np.int64))
    lower, upper, low, high = table.T
    return Cut(make_packing(lower, upper, high - low, capacity), low.copy())
