"""Rows of stays, and ends of write-backs, in compiled code: a decode writes thousands."""

import numpy as np
from numpy.typing import NDArray

from ...env.compiled.kernel import kernel, vector
from ...env.program.mapping import COPY_FIELDS, RESIDENCY_FIELDS, WRITE_BACK

_WIDTH, _COPY_WIDTH = len(RESIDENCY_FIELDS), len(COPY_FIELDS)
_BUFFER, _DIRECTION, _START, _END = (COPY_FIELDS.index(name) for name in ("buffer", "direction", "start", "end"))
_LAST = RESIDENCY_FIELDS.index("end")
_INTEGERS = vector(np.int64)


def residency_rows(stays: NDArray[np.int64], slices: NDArray[np.int64], groups: int) -> NDArray[np.int64]:
    """Returns the rows of stays in fast memory; a stay that meets another of its group prolongs its rows.

    Args:
      stays: `[8, T]` of each stay its group, buffer, first and last instruction, offset, bytes, first slice and number
        of slices.
      slices: `[3, P]` of each slice its lowest byte, the byte after its highest, and the first instruction after which
        its copy has started.
      groups: number of groups.
    """
    most = stays.shape[1] + int(stays[7].sum())
    table = np.empty(most * _WIDTH, np.int64)
    head, link = np.full(groups, -1), np.empty(most, np.int64)
    count = _fill(stays.ravel(), slices.ravel(), table, head, link)
    return table[: count * _WIDTH].reshape(-1, _WIDTH)


@kernel(_INTEGERS, _INTEGERS, _INTEGERS, _INTEGERS, _INTEGERS, returns=int)
def _fill(
    stays: NDArray[np.int64],
    slices: NDArray[np.int64],
    table: NDArray[np.int64],
    head: NDArray[np.int64],
    link: NDArray[np.int64],
) -> int:
    """Fills `table`; `head` has the last row of each group, `link` of each row the one before it in its group."""
    stay_count, slice_count, rows = len(stays) // 8, len(slices) // 3, 0
    for number in range(stay_count):
        group = stays[number]
        first, last = stays[2 * stay_count + number], stays[3 * stay_count + number]
        joined, row = False, head[group]
        while row >= 0:
            if table[row * _WIDTH + _LAST] >= first:
                joined = True
                table[row * _WIDTH + _LAST] = max(table[row * _WIDTH + _LAST], last)
            row = link[row]
        if joined:
            continue
        cuts = stays[7 * stay_count + number]
        for turn in range(max(cuts, 1)):
            begin, low, high = first, 0, stays[5 * stay_count + number]
            if cuts > 0:
                part = stays[6 * stay_count + number] + turn
                low, high, begin = slices[part], slices[slice_count + part], slices[2 * slice_count + part]
            if begin > last:
                continue
            at = rows * _WIDTH
            table[at], table[at + 1], table[at + 2] = stays[stay_count + number], begin, last
            table[at + 3], table[at + 4], table[at + 5] = stays[4 * stay_count + number], low, high
            link[rows], head[group] = head[group], rows
            rows += 1
    return rows


def end_before_prefetches(copies: NDArray[np.int64], buffers: int) -> None:
    """Ends a write-back before a prefetch of the same buffer starts, where both fall between the same instructions.

    The compiler's schedule has more times than a program has instructions: in it the two copies do not overlap.

    Args:
      copies: `[C, 8]` rows of a mapping, which are changed.
      buffers: number of buffers.
    """
    _end(copies.reshape(-1), np.full(buffers, -1), np.empty(len(copies), np.int64))


@kernel(_INTEGERS, _INTEGERS, _INTEGERS)
def _end(copies: NDArray[np.int64], head: NDArray[np.int64], link: NDArray[np.int64]) -> None:
    """`head` has the first write-back of each buffer, `link` of each the next one of its buffer."""
    count = len(copies) // _COPY_WIDTH
    for number in range(count - 1, -1, -1):
        at = number * _COPY_WIDTH
        if copies[at + _DIRECTION] == WRITE_BACK:
            link[number], head[copies[at + _BUFFER]] = head[copies[at + _BUFFER]], number
    for number in range(count):
        at = number * _COPY_WIDTH
        if copies[at + _DIRECTION] == WRITE_BACK:
            continue
        home = head[copies[at + _BUFFER]]
        while home >= 0:
            out = home * _COPY_WIDTH
            if copies[out + _START] <= copies[at + _START] < copies[out + _END]:
                if copies[out + _START] == copies[at + _START] and copies[at + _START] + 1 < copies[at + _END]:
                    copies[at + _START] += 1
                copies[out + _END] = max(copies[at + _START], copies[out + _START] + 1)
            home = link[home]
