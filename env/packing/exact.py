"""Searches for a packing by branch and bound over canonical solutions, until one is found or none exists.

After Moffitt, "MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated Machine Learning" (ASPLOS 2023),
written anew. Items are placed in order of their offsets, each flush on top of the items under it, so that the search
meets a set of offsets once:

- If any packing exists, one does in which no item can move lower. There, in order of offset (ties by rank), each item
  lies at its own floor or on an earlier item: its offset is the highest top among earlier items alive with it.
- Dominance: no item is placed at or above a place that another, unplaced item could fill: that item could move there
  later.
- Symmetry: twins, items with equal sizes, floors and times, are placed in order of rank.
- Bound: in each section (a maximal set of items alive together) the lowest free place, plus all unplaced sizes, must
  not exceed the capacity.
- Decomposition: where no unplaced item crosses a point in time, both sides are independent; if one has no solution, no
  other solution of the first is tried.
"""

import numpy as np
from numba import njit

from ..compiled.sorting import ascending
from .exact_state import Tables, Work

SOLVED = 1
INFEASIBLE = 0
STOPPED = -1
_FAR = np.int64(2**62)
# Columns of `Work.stack`. A frame is one independent part, the items `begin..end`, of a slice that ends at `limit`.
S_BEGIN, S_END, S_LEAST, S_RANK, S_HEIGHT, S_LIMIT, S_FIRST_LEAST, S_FIRST_RANK, S_PARTS, S_MARK = range(10)
# S_LEAST, S_RANK: offset and rank of the item tried last. S_HEIGHT: no item is placed there or above. S_FIRST_LEAST,
# S_FIRST_RANK: first values of LEAST and RANK. S_PARTS: number of parts of the slice. S_MARK: trail before the item.


@njit(nogil=True, cache=True)
def search(tables: Tables, work: Work, lowest: np.ndarray, nodes: int) -> int:
    """Searches from the start; returns `SOLVED` (see `work.offset`), `INFEASIBLE` or `STOPPED`.

    Args:
      tables, work: the problem.
      lowest: `[n]` lowest offsets.
      nodes: most items placed before it stops.
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
    """Returns the index in `work.items` of the next item to try in the frame on top of the stack, or -1."""
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
    """Takes back the items placed in the frame on top of the stack, and the floors they raised."""
    for k in range(work.stack[depth, S_BEGIN], work.stack[depth, S_END]):
        work.offset[work.items[k]] = -1
    while work.trail_count[0] > work.stack[depth, S_MARK]:
        work.trail_count[0] -= 1
        work.low[work.trail_item[work.trail_count[0]]] = work.trail_low[work.trail_count[0]]


@njit(nogil=True, cache=True)
def _raise(tables: Tables, work: Work, chosen: int, top: np.int64) -> bool:
    """Raises the unplaced items alive with `chosen` to its `top`; returns False if one of them then does not fit."""
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
    """Returns 0 if some section cannot take its unplaced items, else the number of independent parts of the slice."""
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
