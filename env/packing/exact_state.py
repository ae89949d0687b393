"""Tables and state of the exact search of `exact.py`, as structures for compiled code."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compiled.struct import Rows, Struct, new_record, one, rows
from .problem import Packing

# Rows of `Work.raised` per item for what is inferred. Once they are spent, bounds no longer rise.
_ROOM = 256

# Sizes, places and capacities are in units of the alignment.
ITEM = np.dtype(
    [
        ("size", np.int64),
        ("lowest", np.int64),  # offset
        ("highest", np.int64),  # offset
        ("rank", np.int64),  # the lower, the earlier tried
        ("twin", np.int64),  # the equal item with the next lower rank, or -1
        ("first_span", np.int64),
        ("end_span", np.int64),  # the span after its last
        ("first_conflict", np.int64),
        ("end_conflict", np.int64),  # the conflict after its last
    ],
    align=True,
)
# Sections of an interval of time: those from `first` on, before `past`.
SPAN = np.dtype([("first", np.int64), ("past", np.int64)], align=True)
PLACED = np.dtype(
    [
        ("low", np.int64),  # lowest offset above the items placed so far
        ("bound", np.int64),  # no solution has it lower; above `low`: postponed
        ("offset", np.int64),  # -1 while unplaced
    ],
    align=True,
)
# Earlier values of `PLACED`, to undo.
RAISED = np.dtype([("item", np.int64), ("low", np.int64), ("bound", np.int64)], align=True)
# Scratch of the inference, and of the choice of an item.
SECTION = np.dtype(
    [
        ("left", np.int64),  # units left to place
        ("total", np.int64),  # `left` when the search last split there
        ("top", np.int64),  # lowest top of an item that can be the first
        ("late", np.int64),  # units left to place from some bound on
        ("crossing", np.int64),  # items that begin in it, less those that end
        ("ends", np.int64),  # 1 if an item ends in it
    ],
    align=True,
)
# One independent part of a slice of the items.
FRAME = np.dtype(
    [
        ("begin", np.int64),  # its items
        ("end", np.int64),
        ("item", np.int64),  # tried last
        ("limit", np.int64),  # end of the slice
        ("parts", np.int64),  # of the slice
        ("raised", np.int64),  # rows of `Work.raised` in use before the item
    ],
    align=True,
)
SEARCH = np.dtype(
    [
        ("capacity", np.int64),  # rounded up
        ("raised", np.int64),  # rows of `Work.raised` in use
        ("most_raised", np.int64),  # rows that inference may use
        ("live", np.int64),  # 1 to prefer the items of what is now the fullest section
        ("nodes", np.int64),  # placements tried
        ("most_nodes", np.int64),  # placements allowed
        ("stop", np.int64),  # not 0: give up; another thread writes it
    ],
    align=True,
)


class Tables(Struct):
    """The problem, which a search does not change. Shapes: `n` items, `k` spans, `c` conflicts.

    Attributes:
      item: `[n]` of `ITEM`.
      span: `[k]` of `SPAN`, by item.
      conflict: `[c]` items alive together with an item, by item.
    """

    item: Rows = rows(ITEM)
    span: Rows = rows(SPAN)
    conflict: Rows = rows(np.int64)


class Work(Struct):
    """The state of a search. Shapes: `n` items, `s` sections.

    Attributes:
      items: `[n]` permuted; a subproblem is a slice.
      placed: `[n]` of `PLACED`.
      raised: of `RAISED`.
      section: `[s + 2]` of `SECTION`.
      frame: `[n + 1]` of `FRAME`, a stack.
      keys, order, spare: `[n]` scratch of sorting.
      now: `SEARCH`.
    """

    items: Rows = rows(np.int64)
    placed: Rows = rows(PLACED)
    raised: Rows = rows(RAISED)
    section: Rows = rows(SECTION)
    frame: Rows = rows(FRAME)
    keys: Rows = rows(np.int64)
    order: Rows = rows(np.int64)
    spare: Rows = rows(np.int64)
    now: Any = one(SEARCH)


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
    item = np.zeros(packing.items, ITEM)
    item["size"], item["lowest"], item["highest"] = packing.units, packing.lowest, packing.highest
    item["rank"], item["twin"] = rank, twin
    item["first_span"], item["end_span"] = packing.span_start[:-1], packing.span_start[1:]
    start, conflict = packing.conflicts
    item["first_conflict"], item["end_conflict"] = start[:-1], start[1:]
    span = np.zeros(len(packing.span_item), SPAN)
    span["first"], span["past"] = packing.span_section
    return Tables(item=item, span=span, conflict=conflict)


def new_work(packing: Packing, room: int = _ROOM) -> Work:
    """Returns the state for searches of a problem, allocated once.

    Args:
      packing: the problem.
      room: how often inference may raise the bound of an item, on average; then it stops, and the search goes on.
    """
    n = packing.items
    # Along a line of search each pair of items raises a low once, and each low is postponed once.
    needed = len(packing.conflicts[1]) + n + 1
    return Work(
        items=np.arange(n),
        placed=np.zeros(n, PLACED),
        raised=np.zeros(needed + room * n, RAISED),
        section=np.zeros(packing.sections + 2, SECTION),
        frame=np.zeros(n + 1, FRAME),
        keys=np.zeros(n, np.int64),
        order=np.zeros(n, np.int64),
        spare=np.zeros(n, np.int64),
        now=new_record(SEARCH, capacity=-(-packing.capacity // packing.alignment), most_raised=room * n),
    )
