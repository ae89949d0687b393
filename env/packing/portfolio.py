"""The orders in which the exact search tries items: first a few fixed ones, then perturbed ones, without end.

No order is good for all problems, and a search that goes wrong early hardly ever recovers. Many searches with few nodes
each therefore find a packing sooner than one with many.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .best_fit import heaviest_section
from .problem import Packing

# Letters: most units alive at once (T), time (W), units times time (A), items alive with it (O), sections (C), earliest
# end (U), latest begin (L). With each: whether items in what is now the fullest section go first.
_FIXED = (("WA", False), ("TAW", True), ("OWA", True), ("LWA", False), ("CWA", False), ("TWA", True), ("UWA", False))
# Standard deviations of the logarithm of a perturbed key; one is drawn for an order.
_SHAKES = (0.05, 0.2, 0.5)
# Perturbed orders in a round.
_PERTURBED = 12


@dataclass(frozen=True, eq=False)
class Order:
    """An order of the items.

    Attributes:
      rank: `[n]` the lower, the earlier tried among the items at one offset.
      live: tried first are items in the section with the most left to place now; otherwise, with the most left when the
        search last split there.
    """

    rank: NDArray[np.int64]
    live: bool


def rounds(packing: Packing) -> Iterator[list[Order]]:
    """Yields lists of orders, without end; the same for equal problems."""
    keys = _keys(packing)
    generator = np.random.default_rng(0)
    fixed = [_order(keys, letters, live) for letters, live in _FIXED]
    while True:
        yield [*fixed, *(_perturbed(keys, generator) for _ in range(_PERTURBED))]


def _keys(packing: Packing) -> dict[str, NDArray[np.float64]]:
    wide = np.zeros(packing.items)
    np.add.at(wide, packing.span_item, packing.span_upper - packing.span_lower)
    first, past = packing.span_section
    begin, end = packing.span_start[:-1], packing.span_start[1:] - 1
    keys = {
        "T": heaviest_section(packing),
        "W": wide,
        "A": wide * packing.units,
        "O": np.diff(packing.conflicts[0]),
        "C": past[end] - first[begin],
        "L": packing.span_lower[begin] - packing.span_lower.min(initial=0),
        "U": packing.span_upper.max(initial=0) - packing.span_upper[end],
    }
    return {letter: np.asarray(key, float) for letter, key in keys.items()}


def _perturbed(keys: dict[str, NDArray[np.float64]], generator: np.random.Generator) -> Order:
    letters, _ = _FIXED[generator.integers(len(_FIXED))]
    live, shake = bool(generator.integers(2)), _SHAKES[generator.integers(len(_SHAKES))]
    shaken = {letter: key * np.exp(shake * generator.standard_normal(len(key))) for letter, key in keys.items()}
    return _order(shaken, letters, live)


def _order(keys: dict[str, NDArray[np.float64]], letters: str, live: bool) -> Order:
    rank = np.empty(len(keys["W"]), np.int64)
    rank[np.lexsort([-keys[letter] for letter in reversed(letters)])] = np.arange(len(rank))
    return Order(rank, live)
