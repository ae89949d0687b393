"""Infers how low the unplaced items of a part can lie at best; a contradiction means that the part has no solution.

Each unplaced item has two places. `low` is the highest top under it: the only offset at which it can be placed now.
`bound` is an offset that it undercuts in no solution. An item whose bound is above its low is *postponed*: it waits for
an unplaced item to lie under it. In a solution in which no item can move lower:

- Time goes up: the lowest unplaced item is not postponed, so none lies below the lowest item that is not.
- First in a section: of the items of a section, one is the lowest. If an item at its bound, with all others of the
  section on top, exceeds the capacity, then it lies on top of another one.
- Support: a postponed item lies on top of an unplaced item alive with it.
- Cover: an unplaced item alive with it takes the place that it leaves free at its low, or it could move there.
- Twins, which have equal sizes, floors and times, lie in the order of their ranks.
- Late items: those of a section that lie at or above a bound need the room of them all above it.
"""

from ..compiled.kernel import routine
from .exact_state import Tables, Work

FAR = 1 << 62


@routine
def infer(tables: Tables, work: Work, begin: int, end: int) -> bool:
    """Raises bounds in the slice `begin..end` of the items until none changes; returns False for a contradiction."""
    first, last = FAR, -1
    for k in range(begin, end):
        item = tables.item[work.items[k]]
        first = min(first, tables.span[item.first_span].first)
        last = max(last, tables.span[item.end_span - 1].past)
    for s in range(first, last):
        work.section[s].left = 0
    for k in range(begin, end):
        item = tables.item[work.items[k]]
        for number in range(item.first_span, item.end_span):
            for s in range(tables.span[number].first, tables.span[number].past):
                work.section[s].left += item.size
    changed = True
    while changed:
        if not _find_lowest_tops(tables, work, begin, end, first, last):
            return False
        changed = False
        for k in range(begin, end):
            i = work.items[k]
            least = _least(tables, work, i)
            if least > tables.item[i].highest:
                return False
            if least > work.placed[i].bound and work.now.raised < work.now.most_raised:
                raise_bound(work, i, least)
                changed = True
    _sort_by_bound(work, begin, end)
    return _late_items_fit(tables, work, begin, end, first, last)


@routine
def raise_bound(work: Work, item: int, bound: int) -> None:
    """Raises the bound of an item, so that it can be undone."""
    placed, raised = work.placed[item], work.raised[work.now.raised]
    raised.item, raised.low, raised.bound = item, placed.low, placed.bound
    work.now.raised += 1
    placed.bound = bound


@routine
def _find_lowest_tops(tables: Tables, work: Work, begin: int, end: int, first: int, last: int) -> bool:
    """Finds, per section, the lowest top that an item can have which is the first in it; False if all are postponed."""
    lowest = FAR
    for k in range(begin, end):
        placed = work.placed[work.items[k]]
        if placed.bound == placed.low:
            lowest = min(lowest, placed.low)
    if lowest == FAR:
        return False
    for s in range(first, last):
        work.section[s].top = FAR
    for k in range(begin, end):
        i = work.items[k]
        if work.placed[i].bound < lowest and work.now.raised < work.now.most_raised:
            raise_bound(work, i, lowest)
        item, bound = tables.item[i], work.placed[i].bound
        for number in range(item.first_span, item.end_span):
            for s in range(tables.span[number].first, tables.span[number].past):
                section = work.section[s]
                if bound + section.left <= work.now.capacity:
                    section.top = min(section.top, bound + item.size)
    return True


@routine
def _least(tables: Tables, work: Work, i: int) -> int:
    """Returns an offset that item `i` does not undercut."""
    item, placed = tables.item[i], work.placed[i]
    least = placed.bound
    for number in range(item.first_span, item.end_span):
        for s in range(tables.span[number].first, tables.span[number].past):
            section = work.section[s]
            if placed.bound + section.left > work.now.capacity:
                least = max(least, section.top)
    if item.twin >= 0 and work.placed[item.twin].offset < 0:
        least = max(least, work.placed[item.twin].bound + item.size)
    if least > placed.low:
        support, cover = FAR, False
        for k in range(item.first_conflict, item.end_conflict):
            j = tables.conflict[k]
            other = work.placed[j]
            if other.offset < 0:
                support = min(support, other.bound + tables.item[j].size)
                cover = cover or other.bound < placed.low + item.size
        if not cover:
            return FAR
        least = max(least, support)
    return least


@routine
def _sort_by_bound(work: Work, begin: int, end: int) -> None:
    for k in range(begin + 1, end):
        i = work.items[k]
        bound = work.placed[i].bound
        j = k
        while j > begin and work.placed[work.items[j - 1]].bound > bound:
            work.items[j] = work.items[j - 1]
            j -= 1
        work.items[j] = i


@routine
def _late_items_fit(tables: Tables, work: Work, begin: int, end: int, first: int, last: int) -> bool:
    """Returns whether, in each section and from each bound on, the items fit that lie no lower."""
    for s in range(first, last):
        work.section[s].late = 0
    for k in range(end - 1, begin - 1, -1):
        i = work.items[k]
        item, bound = tables.item[i], work.placed[i].bound
        for number in range(item.first_span, item.end_span):
            for s in range(tables.span[number].first, tables.span[number].past):
                section = work.section[s]
                section.late += item.size
                if bound + section.late > work.now.capacity:
                    return False
    return True
