"""Tables and state of the exact search of `exact.py`, as arrays for compiled code, and the orders it tries."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .best_fit import heaviest_section
from .problem import Packing

# Strength of a perturbed order: standard deviation of the logarithm of its keys.
_SHAKE = 0.2


class Tables(NamedTuple):
    """The problem, which a search does not change. Shapes: `n` items, `k` spans, `s` sections, `c` conflicts."""

    size: NDArray[np.int64]  # [n]
    highest: NDArray[np.int64]  # [n]
    rank: NDArray[np.int64]  # [n] the lower, the earlier tried
    twin: NDArray[np.int64]  # [n] the equal item with the next lower rank, or -1
    span_start: NDArray[np.int64]  # [n + 1]
    section_first: NDArray[np.int64]  # [k]
    section_past: NDArray[np.int64]  # [k]
    conflict_start: NDArray[np.int64]  # [n + 1]
    conflict: NDArray[np.int64]  # [c]
    capacity: NDArray[np.int64]  # [1] in units, rounded up


class Work(NamedTuple):
    """The state of a search."""

    items: NDArray[np.int64]  # [n] permuted; a subproblem is a slice
    low: NDArray[np.int64]  # [n] lowest offset above the items placed so far
    offset: NDArray[np.int64]  # [n] -1 while unplaced
    trail_item: NDArray[np.int64]  # earlier values of `low`, to undo
    trail_low: NDArray[np.int64]
    trail_count: NDArray[np.int64]  # [1]
    left: NDArray[np.int64]  # [s] scratch: units left to place
    base: NDArray[np.int64]  # [s] scratch: the lowest free place
    crossing: NDArray[np.int64]  # [s + 1] scratch
    stack: NDArray[np.int64]  # [n + 1, 10]
    nodes: NDArray[np.int64]  # [2] placements tried, and allowed
    stop: NDArray[np.int64]  # [1] not 0: give up


def rankings(packing: Packing, generator: np.random.Generator | None = None) -> list[NDArray[np.int64]]:
    """Returns orders in which items are tried, the best first: `[n]` ranks each; with a generator, perturbed ones."""
    size = packing.units
    wide = np.zeros(packing.items, np.int64)
    np.add.at(wide, packing.span_item, packing.span_upper - packing.span_lower)
    load, area = heaviest_section(packing), size * wide
    if generator is not None:
        load, area, wide = (x * np.exp(_SHAKE * generator.standard_normal(packing.items)) for x in (load, area, wide))
    ranks = []
    for keys in ((-area, -wide, -load), (-wide, -area, -load), (-load, -area, -wide), (-load, -wide, -size)):
        rank = np.empty(packing.items, np.int64)
        rank[np.lexsort(keys)] = np.arange(packing.items)
        ranks.append(rank)
    return ranks


def tables_of(packing: Packing, rank: NDArray[np.int64]) -> Tables:
    """Returns the tables of a problem for one order of its items (`rank`, `[n]`)."""
    twin = np.full(packing.items, -1, np.int64)
    alike: dict[tuple[object, ...], int] = {}
    for i in np.argsort(rank).tolist():
        spans = slice(packing.span_start[i], packing.span_start[i + 1])
        key = (
            int(packing.size[i]),
            int(packing.floor[i]),
            packing.span_lower[spans].tobytes(),
            packing.span_upper[spans].tobytes(),
        )
        twin[i] = alike.get(key, -1)
        alike[key] = i
    first, past = packing.span_section
    start, conflict = packing.conflicts
    capacity = np.array([-(-packing.capacity // packing.alignment)], np.int64)
    return Tables(
        packing.units, packing.highest, rank, twin, packing.span_start, first, past, start, conflict, capacity
    )


def new_work(packing: Packing) -> Work:
    """Returns the state for searches of a problem, allocated once."""
    n, conflicts, sections = packing.items, len(packing.conflicts[1]), packing.sections
    return Work(
        np.arange(n),
        packing.lowest.copy(),
        np.full(n, -1, np.int64),
        np.zeros(conflicts + 1, np.int64),
        np.zeros(conflicts + 1, np.int64),
        np.zeros(1, np.int64),
        np.zeros(sections + 1, np.int64),
        np.zeros(sections + 1, np.int64),
        np.zeros(sections + 2, np.int64),
        np.zeros((n + 1, 10), np.int64),
        np.zeros(2, np.int64),
        np.zeros(1, np.int64),
    )
