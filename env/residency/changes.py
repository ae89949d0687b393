"""The changes of a plan that are moves of the residency game: one stay at a time is placed anew."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compiled.kernel import routine
from ..compiled.struct import Struct, rows
from ..game.moves import COPY, DROP, NO_COPY
from ..game.plan import CROSS_PROGRAM_FETCH, WAIT, constant_accesses
from ..game.tables import Tables
from ..program.program import OPERAND
from .stays import CUTS, list_placeable

# Placements of a stay: in HBM; in fast memory; in fast memory with its results written back at once; that, and its
# instructions wait for it however long; in fast memory, prefetched across programs.
HBM, FAST, WRITTEN_BACK, PATIENT, CROSS_PROGRAM = range(5)
PLACEMENTS = 5
# The last kind of stay is a single access; the others are those of `CUTS`.
KINDS = len(CUTS) + 1

# The preference of an operand and of a result by placement.
_OPERAND_PREFERENCE = np.array([DROP, COPY, COPY, WAIT, CROSS_PROGRAM_FETCH], np.int8)
_RESULT_PREFERENCE = np.array([DROP, NO_COPY, COPY, COPY, NO_COPY], np.int8)


class Changes(Struct):
    """The stays of a program and their placements. Shapes: `S` stays, `M` their accesses, `C` changes.

    A stay is a run of consecutive accesses of one buffer: a single access, or as many as follow without a pause longer
    than one of `CUTS`. Different cuts overlap; equal stays are listed once.

    Attributes:
      first: `[S]` the place of a stay's first access in `member`.
      count: `[S]` its accesses.
      member: `[M]` accesses, buffer by buffer.
      kind: `[S]` the row of `CUTS` that made it, or the last kind.
      has_result: `[S]` 1 if it has a result.
      stay, placement: `[C]` the changes.
      operand, result: `[PLACEMENTS]` preferences.
    """

    first: NDArray[np.int64] = rows(np.int64)
    count: NDArray[np.int64] = rows(np.int64)
    member: NDArray[np.int64] = rows(np.int64)
    kind: NDArray[np.int64] = rows(np.int64)
    has_result: NDArray[np.int8] = rows(np.int8)
    stay: NDArray[np.int64] = rows(np.int64)
    placement: NDArray[np.int64] = rows(np.int64)
    operand: NDArray[np.int8] = rows(np.int8)
    result: NDArray[np.int8] = rows(np.int8)


def list_changes(tables: Tables) -> Changes:
    """Returns the changes of a program, in time and space linear in its accesses."""
    kind = tables.access["kind"]
    placeable = list_placeable(tables)
    member, count = placeable.member, len(placeable.member)
    firsts, lasts, kinds = [], [], []
    for number in range(KINDS):
        begins = placeable.begins(CUTS[number]) if number < len(CUTS) else np.ones(count, bool)
        first = np.flatnonzero(begins)
        firsts.append(first)
        lasts.append(np.append(first[1:], count) if len(first) else first)
        kinds.append(np.full(len(first), number))
    first, last, which = np.concatenate(firsts), np.concatenate(lasts), np.concatenate(kinds)
    _, kept = np.unique(first * (count + 1) + last, return_index=True)
    first, last, which = first[kept], last[kept], which[kept]

    def any_in(flags: NDArray[np.bool_]) -> NDArray[np.bool_]:
        total = np.concatenate([[0], np.cumsum(flags[member])])
        return np.asarray(total[last] > total[first])

    has_result = any_in(kind != OPERAND)
    constant = any_in(constant_accesses(tables))
    possible = np.ones((len(first), PLACEMENTS), bool)
    possible[:, FAST] = has_result  # for operands alone it is the same as `WRITTEN_BACK`
    possible[:, CROSS_PROGRAM] = constant
    stay, placement = np.nonzero(possible)
    return Changes(
        first=first.astype(np.int64),
        count=(last - first).astype(np.int64),
        member=member,
        kind=which.astype(np.int64),
        has_result=has_result.astype(np.int8),
        stay=stay.astype(np.int64),
        placement=placement.astype(np.int64),
        operand=_OPERAND_PREFERENCE.copy(),
        result=_RESULT_PREFERENCE.copy(),
    )


# What a change does: its first and its last access whose preference changes, -1 without any, and 1 if one of them waits
# before or after.
EXTENT = np.dtype([(name, np.int64) for name in ("first", "last", "waits")])


@routine
def make_change(tables: Tables, changes: Changes, number: int, plan: np.ndarray, extent: Any) -> None:
    """Places a stay anew in `plan[A]`, and fills `extent`.

    A stay that a cross-program prefetch brings keeps it in fast memory.
    """
    stay, placement = changes.stay[number], changes.placement[number]
    begin = changes.first[stay]
    extent.first, extent.last, extent.waits = -1, -1, 0
    for k in range(begin, begin + changes.count[stay]):
        access = changes.member[k]
        wanted = changes.result[placement]
        if tables.access[access].kind == OPERAND:
            wanted = changes.operand[placement]
            if placement != HBM and plan[access] == CROSS_PROGRAM_FETCH:
                wanted = CROSS_PROGRAM_FETCH
        if plan[access] != wanted:
            if plan[access] == WAIT or wanted == WAIT:
                extent.waits = 1
            plan[access] = wanted
            extent.first = access if extent.first < 0 else extent.first
            extent.last = access
