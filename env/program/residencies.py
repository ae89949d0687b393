"""Tidies residencies: joins pieces of the same bytes, and fits residencies to the loops of a program."""

from collections import Counter, defaultdict
from collections.abc import Set

import numpy as np
from numpy.typing import NDArray

from .extents import extents, held
from .mapping import RESIDENCY_FIELDS
from .program import Program

Row = list[int]


def merge_residencies(residencies: NDArray[np.int64]) -> NDArray[np.int64]:
    """Joins residencies of the same bytes at the same offset that overlap in time.

    A whole buffer that follows its own slices in place prolongs the slices. If only some of them last throughout, it
    holds the bytes of the others. What another one holds throughout is left out.

    Args:
      residencies: `[R, 6]`, columns as in `Mapping`.

    Returns:
      `[R', 6]`, sorted by start, then buffer.
    """
    merged: list[Row] = []
    at_place: dict[tuple[int, int], list[Row]] = {}
    for row in sorted(residencies.tolist(), key=lambda row: (row[1], row[0], row[4])):
        buffer, start, end, offset, low, high = row
        before = at_place.setdefault((buffer, offset), [])
        parts = [part for part in before if part[2] >= start and low <= part[4] and part[5] <= high]
        if parts and sum(part[5] - part[4] for part in parts) == high - low:
            for part in parts:
                part[2] = max(part[2], end)
        else:
            before.append(row)
            merged.append(row)
    for rows in at_place.values():
        inner = [row for row in rows if any(_is_within(row, other) for other in rows)]
        for row in inner:
            rows.remove(row)
            merged.remove(row)
        _leave_to_longer(rows)
    return np.array(merged, np.int64).reshape(len(merged), len(RESIDENCY_FIELDS))


def _is_within(row: Row, other: Row) -> bool:
    """Returns whether another residency of the same place holds all bytes of a row throughout its time."""
    return other is not row and other[1] <= row[1] and row[2] <= other[2] and other[4] <= row[4] and row[5] <= other[5]


def _leave_to_longer(rows: list[Row]) -> None:
    """Takes from residencies of one place the bytes at either end that another one holds throughout their time."""
    for row in rows:
        for part in rows:
            lasts = part[1] <= row[1] and row[2] <= part[2]
            if not lasts or not row[4] <= part[4] < part[5] <= row[5] or part[4:] == row[4:]:
                continue
            if part[4] == row[4]:
                row[4] = part[5]
            elif part[5] == row[5]:
                row[5] = part[4]


def fit_to_loops(
    residencies: NDArray[np.int64],
    program: Program,
    inexpressible: Counter[str],
    used: Set[tuple[int, int]],
) -> NDArray[np.int64]:
    """Makes residencies lie inside a loop, outside it, over all of it, or at both its borders, as a `Mapping` requires.

    XLA breaks this rule in one case, and frees memory in another:

    - It may free a loop-carried value in the middle of the body, between its last use and the next iteration's value.
      Here the residency covers the whole loop, unless another residency needs the bytes in between.
    - It may list the source of a write-back up to a time inside a loop, although the write-back is scheduled before the
      loop and the loop does not use the source. Here the residency ends before the loop.

    A residency that neither repair fits is counted and kept unchanged. Conditionals and their branches cut none.

    Args:
      residencies: `[R, 6]`, columns as in `Mapping`.
      program: the program; its loops count.
      inexpressible: takes the count of what does not fit.
      used: pairs of a buffer and an instruction that accesses it in fast memory.

    Returns:
      `[R', 6]`, merged.
    """
    rows: list[Row] = extents(program, residencies).tolist()
    at_time = _ByTime(rows)
    at_place: dict[tuple[int, int], list[Row]] = defaultdict(list)
    for row in rows:
        at_place[row[0], row[3]].append(row)
    for loop in range(len(program.loop_trips) - 1, -1, -1):
        if _in_conditional(program, loop):
            continue
        first, last = int(program.loop_first[loop]), int(program.loop_last[loop])
        for row in at_time.within(first, last):
            same_place = at_place[row[0], row[3]]
            enters = row[1] <= first and any(other[2] >= last for other in same_place)
            leaves = row[2] >= last and any(other[1] <= first for other in same_place)
            crosses = not (first <= row[1] and row[2] <= last) and not (row[1] <= first and last <= row[2])
            if not (enters or leaves or crosses):
                continue
            whole = [row[0], min(row[1], first), max(row[2], last), *row[3:]]
            meanwhile = at_time.within(whole[1], whole[2])
            if not any(_clash(whole, other) for other in meanwhile if not _same_place(row, other)):
                at_time.prolong(row, whole[1], whole[2])
            elif _is_held(row, same_place, first) and _is_held(row, same_place, last):
                continue
            elif row[1] < first and not any((row[0], t) in used for t in range(first, min(row[2], last) + 1)):
                row[2] = first - 1
            else:
                inexpressible["residency that a loop's border cuts"] += 1
    return held(program, merge_residencies(np.array(rows, np.int64).reshape(len(rows), len(RESIDENCY_FIELDS))))


def _in_conditional(program: Program, loop: int) -> bool:
    """Returns whether a loop is a conditional or one of its branches."""
    if program.conditional is None:
        return False
    parent = int(program.loop_parent[loop])
    return bool(program.conditional[loop]) or (parent >= 0 and bool(program.conditional[parent]))


class _ByTime:
    """Residencies by time: those of given instructions are found without a look at all others."""

    _WIDTH = 64  # this many instructions share a bucket

    def __init__(self, rows: list[Row]) -> None:
        self._rows = rows
        self._number = {id(row): number for number, row in enumerate(rows)}
        self._buckets: dict[int, set[int]] = defaultdict(set)
        for number, row in enumerate(rows):
            self._enter(number, row)

    def _enter(self, number: int, row: Row) -> None:
        for bucket in range(row[1] // self._WIDTH, row[2] // self._WIDTH + 1):
            self._buckets[bucket].add(number)

    def within(self, first: int, last: int) -> list[Row]:
        """Returns the rows that hold something at some time of `first..last`, in their order."""
        buckets = range(first // self._WIDTH, last // self._WIDTH + 1)
        numbers = sorted(set().union(*(self._buckets.get(bucket, ()) for bucket in buckets)))
        return [row for row in (self._rows[n] for n in numbers) if row[1] <= last and first <= row[2]]

    def prolong(self, row: Row, start: int, end: int) -> None:
        """Gives a row another interval; it may also be shortened in place."""
        row[1:3] = start, end
        self._enter(self._number[id(row)], row)


def _is_held(row: Row, same_place: list[Row], instruction: int) -> bool:
    """Returns whether all bytes of a row lie at its place while `instruction` runs."""
    reached = row[4]
    for low, high in sorted((other[4], other[5]) for other in same_place if other[1] <= instruction <= other[2]):
        if low > reached:
            break
        reached = max(reached, high)
    return reached >= row[5]


def _same_place(row: Row, other: Row) -> bool:
    """Returns whether two rows hold one buffer at one offset, so that a slice's bytes lie where the whole's do."""
    return row[0] == other[0] and row[3] == other[3]


def _clash(row: Row, other: Row) -> bool:
    """Returns whether two rows overlap in time and in bytes."""
    in_time = row[1] <= other[2] and other[1] <= row[2]
    return in_time and row[3] + row[4] < other[3] + other[5] and other[3] + other[4] < row[3] + row[5]
