"""Exact packing: branch and bound over canonical solutions.

After Moffitt, "MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated Machine Learning" (ASPLOS 2023),
written anew. Items are placed in order of their offsets, each flush on top of what lies under it, so that a set of
offsets is met once:

- If any packing exists, one does in which no item can move lower. There, in order of offset (ties by rank), each item
  lies at its own floor or on an earlier item: its offset is the highest top among earlier items alive with it.
- Dominance: no item is placed at or above a place that another one, still unplaced, could take whole: that one could
  move there later.
- Twins, items alike in everything, are placed in order of rank.
- Bound: in each section (a maximal set of items alive together) the lowest place that is left, plus all sizes that are
  left, must not exceed the capacity.
- Decomposition: where no unplaced item crosses a point in time, both sides are independent; if one has no solution, no
  other solution of the first is tried.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..compiled.sorting import ascending
from .best_fit import heaviest_section
from .problem import Packing

SOLVED = 1
INFEASIBLE = 0
STOPPED = -1
_FAR = np.int64(2**62)
# How far a shaken order is from the plain one: standard deviation of the logarithm of its keys.
_SHAKE = 0.2

# Columns of Work.stack. A frame is one independent part, the items `begin..end`, of a slice that ends at `limit`.
S_BEGIN, S_END, S_LEAST, S_RANK, S_HEIGHT, S_LIMIT, S_FIRST_LEAST, S_FIRST_RANK, S_PARTS, S_MARK = range(10)
# S_LEAST, S_RANK: offset and rank of the item tried last. S_HEIGHT: no item is placed there or above. S_FIRST_LEAST,
# S_FIRST_RANK: what LEAST and RANK begin with. S_PARTS: how many parts the slice had. S_MARK: trail before the item.


class Tables(NamedTuple):
    """What does not change. Shapes: `n` items, `k` spans, `s` sections, `c` conflicts."""

    size: NDArray[np.int64]  # [n]
    highest: NDArray[np.int64]  # [n]
    rank: NDArray[np.int64]  # [n] the lower, the earlier tried
    twin: NDArray[np.int64]  # [n] the item alike with the next lower rank, or -1
    span_start: NDArray[np.int64]  # [n + 1]
    section_first: NDArray[np.int64]  # [k]
    section_past: NDArray[np.int64]  # [k]
    conflict_start: NDArray[np.int64]  # [n + 1]
    conflict: NDArray[np.int64]  # [c]
    capacity: NDArray[np.int64]  # [1] in units, rounded up


class Work(NamedTuple):
    """What changes in a search."""

    items: NDArray[np.int64]  # [n] permuted; a subproblem is a slice
    low: NDArray[np.int64]  # [n] lowest offset over everything placed
    offset: NDArray[np.int64]  # [n] -1 while unplaced
    trail_item: NDArray[np.int64]  # what `low` was, to undo
    trail_low: NDArray[np.int64]
    trail_count: NDArray[np.int64]  # [1]
    left: NDArray[np.int64]  # [s] scratch: units left to place
    base: NDArray[np.int64]  # [s] scratch: the lowest place left
    crossing: NDArray[np.int64]  # [s + 1] scratch
    stack: NDArray[np.int64]  # [n + 1, 10]
    nodes: NDArray[np.int64]  # [2] placements tried, and allowed
    stop: NDArray[np.int64]  # [1] not 0: give up


def rankings(packing: Packing, generator: np.random.Generator | None = None) -> list[NDArray[np.int64]]:
    """Returns orders in which items are tried, best first: `[n]` ranks each; with a generator, shaken ones."""
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
    """Returns the tables of a problem for one order of trying."""
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
    """Returns room for a search."""
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


@njit(nogil=True, cache=True)
def search(tables: Tables, work: Work, lowest: np.ndarray, nodes: int) -> int:
    """Searches from the start; returns `SOLVED` (see `work.offset`), `INFEASIBLE` or `STOPPED`.

    Args:
      tables, work: the problem.
      lowest: `[n]` lowest offsets.
      nodes: give up after this many.
    """
    n = len(tables.size)
    for i in range(n):
        work.items[i] = i
        work.low[i] = lowest[i]
        work.offset[i] = -1
        if lowest[i] > tables.highest[i]:
            return INFEASIBLE
    work.trail_count[0] = 0
    work.nodes[0] = 0
    work.nodes[1] = nodes
    if n == 0:
        return SOLVED
    parts = _bound(tables, work, 0, n, np.int64(0))
    if parts == 0:
        return INFEASIBLE
    if parts > 1:
        _sort_by_section(tables, work, 0, n)
    depth = 0
    _push(tables, work, 0, 0, n, np.int64(-1), np.int64(-1), parts)
    while True:
        frame = work.stack[depth]
        best = _try_next(tables, work, depth)
        if best < 0:
            if depth == 0:
                return INFEASIBLE
            depth -= 1
            _undo(work, depth)
            continue
        work.nodes[0] += 1
        if work.nodes[0] > work.nodes[1] or work.stop[0] != 0:
            return STOPPED
        begin, end = frame[S_BEGIN], frame[S_END]
        chosen = work.items[best]
        work.items[best] = work.items[begin]
        work.items[begin] = chosen
        low = work.low[chosen]
        work.offset[chosen] = low
        frame[S_LEAST], frame[S_RANK], frame[S_MARK] = low, tables.rank[chosen], work.trail_count[0]
        if begin + 1 < end:
            parts = 0
            if _raise(tables, work, chosen, low + tables.size[chosen]):
                parts = _bound(tables, work, begin + 1, end, low)
            if parts == 0:
                _undo(work, depth)
                continue
            if parts > 1:
                _sort_by_section(tables, work, begin + 1, end)
            depth += 1
            _push(tables, work, depth, begin + 1, end, low, tables.rank[chosen], parts)
            continue
        # A part is solved: on to the next one beside it, or, after the last, the slice that they came from is solved.
        while work.stack[depth, S_END] == work.stack[depth, S_LIMIT]:
            if depth == 0:
                return SOLVED
            depth -= 1
        frame = work.stack[depth]
        _push(
            tables,
            work,
            depth,
            frame[S_END],
            frame[S_LIMIT],
            frame[S_FIRST_LEAST],
            frame[S_FIRST_RANK],
            frame[S_PARTS],
        )


@njit(nogil=True, cache=True)
def _try_next(tables: Tables, work: Work, depth: int) -> int:
    """Returns the place in `work.items` of the next item to try on top of the stack, or -1."""
    begin, end, least, rank, height = work.stack[depth, :5]
    best, best_low, best_rank = -1, height, np.int64(0)
    for k in range(begin, end):
        i = work.items[k]
        low, own = work.low[i], tables.rank[i]
        if low < least or (low == least and own <= rank) or low >= height:
            continue
        if low < best_low or (low == best_low and own < best_rank):
            twin = tables.twin[i]
            if twin < 0 or work.offset[twin] >= 0:
                best, best_low, best_rank = k, low, own
    return best


@njit(nogil=True, cache=True)
def _push(
    tables: Tables, work: Work, depth: int, begin: int, limit: int, least: np.int64, rank: np.int64, parts: int
) -> None:
    """Puts the first independent part of the slice `begin..limit` on the stack."""
    past = limit
    if parts > 1:
        reach = _last_section(tables, work.items[begin])
        past = begin + 1
        while past < limit and tables.section_first[tables.span_start[work.items[past]]] <= reach:
            reach = max(reach, _last_section(tables, work.items[past]))
            past += 1
    height = _FAR
    for k in range(begin, past):
        i = work.items[k]
        height = min(height, work.low[i] + tables.size[i])
    row = work.stack[depth]
    row[S_BEGIN], row[S_END], row[S_LEAST], row[S_RANK], row[S_HEIGHT] = begin, past, least, rank, height
    row[S_LIMIT], row[S_FIRST_LEAST], row[S_FIRST_RANK], row[S_PARTS] = limit, least, rank, parts


@njit(nogil=True, cache=True)
def _undo(work: Work, depth: int) -> None:
    """Takes back what was placed in the slice on top of the stack."""
    for k in range(work.stack[depth, S_BEGIN], work.stack[depth, S_END]):
        work.offset[work.items[k]] = -1
    while work.trail_count[0] > work.stack[depth, S_MARK]:
        work.trail_count[0] -= 1
        work.low[work.trail_item[work.trail_count[0]]] = work.trail_low[work.trail_count[0]]


@njit(nogil=True, cache=True)
def _raise(tables: Tables, work: Work, chosen: int, top: np.int64) -> bool:
    """Raises everything unplaced that is alive with `chosen` to its `top`; False if something then finds no room."""
    for k in range(tables.conflict_start[chosen], tables.conflict_start[chosen + 1]):
        j = tables.conflict[k]
        if work.offset[j] < 0 and work.low[j] < top:
            count = work.trail_count[0]
            work.trail_item[count] = j
            work.trail_low[count] = work.low[j]
            work.trail_count[0] = count + 1
            work.low[j] = top
            if top > tables.highest[j]:
                return False
    return True


@njit(nogil=True, cache=True)
def _bound(tables: Tables, work: Work, begin: int, end: int, least: np.int64) -> int:
    """Returns 0 if some section cannot take what is left for it, else the number of independent parts of the slice."""
    first, last = _FAR, np.int64(-1)
    for k in range(begin, end):
        i = work.items[k]
        first = min(first, tables.section_first[tables.span_start[i]])
        last = max(last, _last_section(tables, i))
    for s in range(first, last + 2):
        work.left[s] = 0
        work.base[s] = _FAR
        work.crossing[s] = 0
    for k in range(begin, end):
        i = work.items[k]
        low, size = max(work.low[i], least), tables.size[i]
        a, b = tables.span_start[i], tables.span_start[i + 1]
        work.crossing[tables.section_first[a]] += 1
        work.crossing[tables.section_past[b - 1] - 1] -= 1
        for span in range(a, b):
            for s in range(tables.section_first[span], tables.section_past[span]):
                work.left[s] += size
                work.base[s] = min(work.base[s], low)
    parts, across = 0, np.int64(0)
    for s in range(first, last + 1):
        if work.left[s] > 0 and work.base[s] + work.left[s] > tables.capacity[0]:
            return 0
        across += work.crossing[s]
        if across == 0 and work.left[s] > 0:  # nothing reaches from this section into the next one
            parts += 1
    return parts


@njit(nogil=True, cache=True)
def _last_section(tables: Tables, item: int) -> np.int64:
    return tables.section_past[tables.span_start[item + 1] - 1] - 1


@njit(nogil=True, cache=True)
def _sort_by_section(tables: Tables, work: Work, begin: int, end: int) -> None:
    keys = np.empty(end - begin, np.int64)
    for k in range(begin, end):
        keys[k - begin] = tables.section_first[tables.span_start[work.items[k]]]
    work.items[begin:end] = work.items[begin:end][ascending(keys)]
