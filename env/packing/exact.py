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

from ..compiled.kernel import kernel, routine
from ..compiled.sorting import sort_rows
from .exact_state import Tables, Work

SOLVED = 1
INFEASIBLE = 0
STOPPED = -1
_FAR = 1 << 62


@kernel(Tables, Work, int, returns=int)
def search(tables: Tables, work: Work, nodes: int) -> int:
    """Searches from the start; returns `SOLVED` (see `work.placed`), `INFEASIBLE` or `STOPPED`.

    Args:
      tables: the problem.
      work: overwritten.
      nodes: most items placed before it stops.
    """
    now = work.now
    n = len(tables.item)
    for i in range(n):
        item, placed = tables.item[i], work.placed[i]
        work.items[i] = i
        placed.low, placed.offset = item.lowest, -1
        if item.lowest > item.highest:
            return INFEASIBLE
    now.raised, now.nodes, now.most_nodes = 0, 0, nodes
    if n == 0:
        return SOLVED
    parts = _bound(tables, work, 0, n, 0)
    if parts == 0:
        return INFEASIBLE
    if parts > 1:
        _sort_by_section(tables, work, 0, n)
    depth = 0
    _push(tables, work, 0, 0, n, -1, -1, parts)
    while True:
        frame = work.frame[depth]
        best = _try_next(tables, work, depth)
        if best < 0:
            if depth == 0:
                return INFEASIBLE
            depth -= 1
            _undo(work, depth)
            continue
        now.nodes += 1
        if now.nodes > now.most_nodes or now.stop != 0:
            return STOPPED
        begin, end = frame.begin, frame.end
        chosen = work.items[best]
        work.items[best] = work.items[begin]
        work.items[begin] = chosen
        low, rank = work.placed[chosen].low, tables.item[chosen].rank
        work.placed[chosen].offset = low
        frame.least, frame.rank, frame.raised = low, rank, now.raised
        if begin + 1 < end:
            parts = 0
            if _raise(tables, work, chosen, low + tables.item[chosen].size):
                parts = _bound(tables, work, begin + 1, end, low)
            if parts == 0:
                _undo(work, depth)
                continue
            if parts > 1:
                _sort_by_section(tables, work, begin + 1, end)
            depth += 1
            _push(tables, work, depth, begin + 1, end, low, rank, parts)
            continue
        # A part is solved: on to the next one beside it, or, after the last, the slice that they came from is solved.
        while work.frame[depth].end == work.frame[depth].limit:
            if depth == 0:
                return SOLVED
            depth -= 1
        frame = work.frame[depth]
        _push(tables, work, depth, frame.end, frame.limit, frame.first_least, frame.first_rank, frame.parts)


@routine
def _try_next(tables: Tables, work: Work, depth: int) -> int:
    """Returns the index in `work.items` of the next item to try in the frame on top of the stack, or -1."""
    frame = work.frame[depth]
    best, best_low, best_rank = -1, frame.height, 0
    for k in range(frame.begin, frame.end):
        i = work.items[k]
        low, own = work.placed[i].low, tables.item[i].rank
        if low < frame.least or (low == frame.least and own <= frame.rank) or low >= frame.height:
            continue
        if low < best_low or (low == best_low and own < best_rank):
            twin = tables.item[i].twin
            if twin < 0 or work.placed[twin].offset >= 0:
                best, best_low, best_rank = k, low, own
    return best


@routine
def _push(tables: Tables, work: Work, depth: int, begin: int, limit: int, least: int, rank: int, parts: int) -> None:
    """Puts the first independent part of the slice `begin..limit` on the stack."""
    past = limit
    if parts > 1:
        reach = _last_section(tables, work.items[begin])
        past = begin + 1
        while past < limit and _first_section(tables, work.items[past]) <= reach:
            reach = max(reach, _last_section(tables, work.items[past]))
            past += 1
    height = _FAR
    for k in range(begin, past):
        i = work.items[k]
        height = min(height, work.placed[i].low + tables.item[i].size)
    frame = work.frame[depth]
    frame.begin, frame.end, frame.least, frame.rank, frame.height = begin, past, least, rank, height
    frame.limit, frame.first_least, frame.first_rank, frame.parts = limit, least, rank, parts


@routine
def _undo(work: Work, depth: int) -> None:
    """Takes back the items placed in the frame on top of the stack, and the floors they raised."""
    frame = work.frame[depth]
    for k in range(frame.begin, frame.end):
        work.placed[work.items[k]].offset = -1
    while work.now.raised > frame.raised:
        work.now.raised -= 1
        raised = work.raised[work.now.raised]
        work.placed[raised.item].low = raised.low


@routine
def _raise(tables: Tables, work: Work, chosen: int, top: int) -> bool:
    """Raises the unplaced items alive with `chosen` to its `top`; returns False if one of them then does not fit."""
    for k in range(tables.item[chosen].first_conflict, tables.item[chosen].end_conflict):
        j = tables.conflict[k]
        placed = work.placed[j]
        if placed.offset < 0 and placed.low < top:
            raised = work.raised[work.now.raised]
            raised.item, raised.low = j, placed.low
            work.now.raised += 1
            placed.low = top
            if top > tables.item[j].highest:
                return False
    return True


@routine
def _bound(tables: Tables, work: Work, begin: int, end: int, least: int) -> int:
    """Returns 0 if some section cannot take its unplaced items, else the number of independent parts of the slice."""
    first, last = _FAR, -1
    for k in range(begin, end):
        i = work.items[k]
        first = min(first, _first_section(tables, i))
        last = max(last, _last_section(tables, i))
    for s in range(first, last + 2):
        section = work.section[s]
        section.left, section.base, section.crossing = 0, _FAR, 0
    for k in range(begin, end):
        i = work.items[k]
        item, low = tables.item[i], max(work.placed[i].low, least)
        work.section[_first_section(tables, i)].crossing += 1
        work.section[_last_section(tables, i)].crossing -= 1
        for number in range(item.first_span, item.end_span):
            span = tables.span[number]
            for s in range(span.first, span.past):
                section = work.section[s]
                section.left += item.size
                section.base = min(section.base, low)
    parts, across = 0, 0
    for s in range(first, last + 1):
        section = work.section[s]
        if section.left > 0 and section.base + section.left > work.now.capacity:
            return 0
        across += section.crossing
        if across == 0 and section.left > 0:  # nothing reaches from this section into the next one
            parts += 1
    return parts


@routine
def _first_section(tables: Tables, item: int) -> int:
    return tables.span[tables.item[item].first_span].first


@routine
def _last_section(tables: Tables, item: int) -> int:
    return tables.span[tables.item[item].end_span - 1].past - 1


@routine
def _sort_by_section(tables: Tables, work: Work, begin: int, end: int) -> None:
    count = end - begin
    for k in range(count):
        work.keys[k] = _first_section(tables, work.items[begin + k])
    sort_rows(work.keys, work.order, work.spare, count)
    for k in range(count):
        work.spare[k] = work.items[begin + work.order[k]]
    for k in range(count):
        work.items[begin + k] = work.spare[k]
