"""Intervals over which the bytes of one buffer stay in fast memory, per byte segment and offset.

Residencies and copies cut a buffer into byte segments; inside a segment all bytes share one fate.
"""

from bisect import bisect_left
from collections import defaultdict
from typing import NamedTuple

from .events import Copy


class Interval(NamedTuple):
    """A byte segment of a buffer, resident without a break over instructions `first..last` at one offset."""

    offset: int
    segment: int
    first: int
    last: int


class ResidentIntervals:
    """The intervals of one buffer. An interval is named by its index in `intervals`.

    Attributes:
      segments: number of byte segments.
      intervals: all intervals.
      begins: offset and first instruction of each residency.
    """

    def __init__(self, size: int, rows: list[list[int]], copies: list[Copy]) -> None:
        cuts = {0, size}
        for row in rows:
            cuts.update(row[4:6])
        for copy in copies:
            cuts.update((copy.low, copy.high))
        self._cuts = sorted(cuts)
        self.segments = len(self._cuts) - 1
        self.intervals: list[Interval] = []
        self._at: dict[int, list[list[int]]] = {}  # offset -> segment -> its intervals
        self._merge(rows)
        self.begins = {(r[3], r[1]) for r in rows}

    def segments_of(self, low: int, high: int) -> range:
        """Returns the segments of bytes `low..high`, which are cuts."""
        return range(bisect_left(self._cuts, low), bisect_left(self._cuts, high))

    def covering(self, first: int, last: int, segments: range) -> list[list[int]]:
        """Returns, for each offset where all `segments` stay over `first..last`, one interval per segment."""
        found = []
        for groups in self._at.values():
            chosen = []
            for segment in segments:
                for index in groups[segment]:
                    interval = self.intervals[index]
                    if interval.first <= first and last <= interval.last:
                        chosen.append(index)
                        break
                else:
                    break
            else:
                found.append(chosen)
        return found

    def at(self, offset: int, segment: int, instruction: int) -> int:
        """Returns the interval of a segment at an offset while `instruction` runs, or -1."""
        for index in self._at[offset][segment]:
            if self.intervals[index].first <= instruction <= self.intervals[index].last:
                return index
        return -1

    def offset(self, place: list[int]) -> int:
        """Returns the offset of a place that `covering` found."""
        return self.intervals[place[0]].offset

    def _merge(self, rows: list[list[int]]) -> None:
        """Joins residencies of the same bytes at the same offset that follow each other without a break."""
        spans: dict[tuple[int, int], list[list[int]]] = defaultdict(list)
        for _, start, end, offset, low, high, _ in sorted(rows, key=lambda row: row[1]):
            for segment in self.segments_of(low, high):
                known = spans[offset, segment]
                if known and start <= known[-1][1] + 1:
                    known[-1][1] = max(known[-1][1], end)
                else:
                    known.append([start, end])
        for (offset, segment), known in spans.items():
            groups = self._at.setdefault(offset, [[] for _ in range(self.segments)])
            for first, last in known:
                groups[segment].append(len(self.intervals))
                self.intervals.append(Interval(offset, segment, first, last))
