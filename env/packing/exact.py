"""Searches for a packing by branch and bound over canonical solutions, until one is found or none exists.

After Moffitt, "MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated Machine Learning" (ASPLOS 2023),
written anew, with more inference (`inference.py`):

- If any packing exists, one does in which no item can move lower. There each item lies at its own floor or on another
  item. Items are placed from the bottom to the top, each at its *low*, flush on the highest item under it.
- Two branches: an item is placed at its low, or postponed, so that it lies higher. No packing is reached twice.
- Decomposition: where no unplaced item crosses a point in time, both sides are independent; if one has no solution, no
  other solution of the first is tried.
"""

from ..compiled.kernel import kernel, routine
from ..compiled.sorting import sort_rows
from .exact_state import Tables, Work
from .inference import FAR, infer, raise_bound

SOLVED = 1
INFEASIBLE = 0
STOPPED = -1


@kernel(Tables, Work, int, bool, returns=int)
def search(tables: Tables, work: Work, nodes: int, live: bool) -> int:
    """Searches from the start; returns `SOLVED` (see `work.placed`), `INFEASIBLE` or `STOPPED`.

    Args:
      tables: the problem.
      work: overwritten.
      nodes: most items placed before it stops.
      live: prefer items in what is now the fullest section (`portfolio.Order`).
    """
    now = work.now
    now.live = 1 if live else 0
    n = len(tables.item)
    for i in range(n):
        item, placed = tables.item[i], work.placed[i]
        work.items[i] = i
        placed.low, placed.bound, placed.offset = item.lowest, item.lowest, -1
        if item.lowest > item.highest:
            return INFEASIBLE
    now.raised, now.nodes, now.most_nodes = 0, 0, nodes
    if n == 0:
        return SOLVED
    if not infer(tables, work, 0, n):
        return INFEASIBLE
    depth = 0
    _push(tables, work, 0, 0, n, _split(tables, work, 0, n))
    hopeful = True
    while True:
        if not hopeful:
            if depth == 0:
                return INFEASIBLE
            depth -= 1
            hopeful = _postpone(tables, work, depth)
            continue
        chosen = _choose(tables, work, depth)
        if chosen < 0:
            hopeful = False
            continue
        now.nodes += 1
        if now.nodes > now.most_nodes or now.stop != 0:
            return STOPPED
        frame = work.frame[depth]
        begin, end = frame.begin, frame.end
        frame.item, frame.raised = work.items[chosen], now.raised
        work.items[chosen], work.items[begin] = work.items[begin], frame.item
        if begin + 1 < end:
            if _place(tables, work, frame.item) and infer(tables, work, begin + 1, end):
                depth += 1
                _push(tables, work, depth, begin + 1, end, _split(tables, work, begin + 1, end))
            else:
                hopeful = _postpone(tables, work, depth)
            continue
        work.placed[frame.item].offset = work.placed[frame.item].low
        # A part is solved: on to the next one beside it, or, after the last, the slice that they came from is solved.
        while work.frame[depth].end == work.frame[depth].limit:
            if depth == 0:
                return SOLVED
            depth -= 1
        frame = work.frame[depth]
        _push(tables, work, depth, frame.end, frame.limit, frame.parts)


@routine
def _choose(tables: Tables, work: Work, depth: int) -> int:
    """Returns the index in `work.items` of the lowest item of a frame that is not postponed, or -1.

    Among items at one offset, those in the fullest section go first, then those with the lowest rank. It is -1 too if
    the lowest item lies over a place that another one could fill, and would then move down to.
    """
    frame = work.frame[depth]
    best, best_low, best_rank, best_full, height = -1, FAR, 0, 0, FAR
    for k in range(frame.begin, frame.end):
        i = work.items[k]
        placed, rank = work.placed[i], tables.item[i].rank
        height = min(height, placed.low + tables.item[i].size)
        if placed.low < placed.bound or placed.low > best_low:
            continue
        full = _fullest(tables, work, i)
        if placed.low == best_low and (full < best_full or (full == best_full and rank > best_rank)):
            continue
        best, best_low, best_rank, best_full = k, placed.low, rank, full
    return best if best_low < height else -1


@routine
def _fullest(tables: Tables, work: Work, i: int) -> int:
    """Returns the most units left to place in any section of an item."""
    most, live = 0, work.now.live != 0
    for number in range(tables.item[i].first_span, tables.item[i].end_span):
        for s in range(tables.span[number].first, tables.span[number].past):
            section = work.section[s]
            most = max(most, section.left if live else section.total)
    return most


@routine
def _push(tables: Tables, work: Work, depth: int, begin: int, limit: int, parts: int) -> None:
    """Puts the first independent part of the slice `begin..limit` on the stack."""
    past = limit
    if parts > 1:
        reach = _last_section(tables, work.items[begin])
        past = begin + 1
        while past < limit and _first_section(tables, work.items[past]) <= reach:
            reach = max(reach, _last_section(tables, work.items[past]))
            past += 1
    frame = work.frame[depth]
    frame.begin, frame.end, frame.limit, frame.parts = begin, past, limit, parts


@routine
def _place(tables: Tables, work: Work, chosen: int) -> bool:
    """Places an item at its low and raises those alive with it to its top; returns False if one then does not fit."""
    work.placed[chosen].offset = work.placed[chosen].low
    top = work.placed[chosen].low + tables.item[chosen].size
    for k in range(tables.item[chosen].first_conflict, tables.item[chosen].end_conflict):
        j = tables.conflict[k]
        placed = work.placed[j]
        if placed.offset < 0 and placed.low < top:
            raise_bound(work, j, max(placed.bound, top))
            placed.low = top
            if placed.bound > tables.item[j].highest:
                return False
    return True


@routine
def _postpone(tables: Tables, work: Work, depth: int) -> bool:
    """Takes back the item placed in a frame and all since, and postpones it; returns False if that is impossible."""
    frame = work.frame[depth]
    for k in range(frame.begin, frame.end):
        work.placed[work.items[k]].offset = -1
    while work.now.raised > frame.raised:
        work.now.raised -= 1
        raised = work.raised[work.now.raised]
        work.placed[raised.item].low, work.placed[raised.item].bound = raised.low, raised.bound
    raise_bound(work, frame.item, work.placed[frame.item].low + 1)
    return infer(tables, work, frame.begin, frame.end)


@routine
def _split(tables: Tables, work: Work, begin: int, end: int) -> int:
    """Returns the number of independent parts of the slice; if there are several, the items are sorted by time."""
    first, last, count = FAR, -1, end - begin
    for k in range(begin, end):
        first = min(first, _first_section(tables, work.items[k]))
        last = max(last, _last_section(tables, work.items[k]))
    for s in range(first, last + 1):
        work.section[s].crossing, work.section[s].ends = 0, 0
    for k in range(begin, end):
        past = work.section[_last_section(tables, work.items[k])]
        work.section[_first_section(tables, work.items[k])].crossing += 1
        past.crossing -= 1
        past.ends = 1
    parts, across = 0, 0
    for s in range(first, last + 1):
        across += work.section[s].crossing
        if across == 0 and work.section[s].ends != 0:  # nothing reaches from this section into the next one
            parts += 1
    if parts > 1 or count == len(tables.item):
        for s in range(first, last + 1):
            work.section[s].total = work.section[s].left
    if parts > 1:
        _sort_by_section(tables, work, begin, end)
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
