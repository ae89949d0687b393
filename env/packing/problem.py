"""Packing problems: items with sizes and known times share one memory, no two on the same bytes at the same time."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numba import types
from numpy.typing import NDArray

from ..compiled.kernel import kernel, vector
from ..errors import UserError

# The most bytes that a packing problem counts: twice as many are still numbers that compiled code holds.
MOST_BYTES = 2**62


@dataclass(frozen=True, eq=False)
class Packing:
    """Items to be packed. Shapes: `n` items, `k` spans; an item holds its bytes over all of its spans.

    Attributes:
      size: `[n]` bytes, at least 1.
      span_item: `[k]` ascending; every item has at least one span.
      span_lower, span_upper: `[k]` half-open times. The spans of an item neither touch nor overlap, and ascend.
      capacity: bytes of the memory.
      alignment: offsets are multiples of this many bytes.
      floor: `[n]` an item may not begin below this many bytes.
    """

    size: NDArray[np.int64]
    span_item: NDArray[np.int64]
    span_lower: NDArray[np.int64]
    span_upper: NDArray[np.int64]
    capacity: int
    alignment: int
    floor: NDArray[np.int64]

    @property
    def items(self) -> int:
        """`n`."""
        return len(self.size)

    @cached_property
    def units(self) -> NDArray[np.int64]:
        """`[n]` sizes in multiples of the alignment, rounded up."""
        return -(-self.size // self.alignment)

    @cached_property
    def lowest(self) -> NDArray[np.int64]:
        """`[n]` lowest offset in multiples of the alignment."""
        return -(-self.floor // self.alignment)

    @cached_property
    def highest(self) -> NDArray[np.int64]:
        """`[n]` highest offset in multiples of the alignment; below 0 for an item larger than the memory."""
        return (self.capacity - self.size) // self.alignment

    @cached_property
    def span_start(self) -> NDArray[np.int64]:
        """`[n + 1]` the spans of item `i` are `span_start[i]:span_start[i + 1]`."""
        return np.searchsorted(self.span_item, np.arange(self.items + 1)).astype(np.int64)

    @cached_property
    def _sections(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        times = np.unique(np.concatenate([self.span_lower, self.span_upper]))
        begins = np.searchsorted(times, self.span_lower)
        ends = np.searchsorted(times, self.span_upper)
        # A set of items alive together is maximal if the last event before it is a birth and the next one after it a
        # death.
        born = np.zeros(max(len(times), 1), bool)
        dies = np.zeros(max(len(times), 1), bool)
        born[begins] = True
        dies[ends] = True
        number = np.zeros(len(times) + 1, np.int64)  # maximal sets that end at or before the event
        count, waiting = 0, False
        for event in range(len(times)):
            if dies[event] and waiting:
                count += 1
                waiting = False
            waiting = waiting or bool(born[event])
            number[event] = count
        first, past = number[begins], number[ends]
        return first, past, np.array(count)

    @property
    def sections(self) -> int:
        """`s`: number of sections. A section is a maximal set of items alive together; sections ascend in time."""
        return int(self._sections[2])

    @property
    def span_section(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """`first` and `past`, `[k]` each: a span covers sections `first .. past - 1`."""
        return self._sections[0], self._sections[1]

    @cached_property
    def load(self) -> int:
        """Most bytes alive at one time, each item rounded up to the alignment; no packing takes less."""
        first, past = self.span_section
        change = np.zeros(self.sections + 1, np.int64)
        np.add.at(change, first, self.units[self.span_item])
        np.add.at(change, past, -self.units[self.span_item])
        return int(np.cumsum(change).max(initial=0)) * self.alignment

    @cached_property
    def conflicts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """`first`, `[n + 1]`, and `second`, `[c]`: item `i` is alive with items `second[first[i]:first[i + 1]]`."""
        return _conflicts(self.span_start, self.span_lower, self.span_upper)


def make_packing(
    lower: Sequence[int] | NDArray[np.int64],
    upper: Sequence[int] | NDArray[np.int64],
    size: Sequence[int] | NDArray[np.int64],
    capacity: int,
    alignment: int = 1,
    floor: Sequence[int] | NDArray[np.int64] | None = None,
    item: Sequence[int] | NDArray[np.int64] | None = None,
) -> Packing:
    """Returns a packing problem.

    Args:
      lower, upper: `[k]` half-open times of the spans.
      size: `[n]` bytes.
      capacity: bytes of the memory.
      alignment: offsets are multiples of this many bytes.
      floor: `[n]` lowest offsets; 0 without.
      item: `[k]` the item of each span, in any order; without, each span is an item of its own.

    Raises:
      UserError: a size, span, alignment or capacity is out of range, or they do not fit together.
    """
    lower, upper, size = _integers("lower", lower), _integers("upper", upper), _integers("size", size)
    item = np.arange(len(lower)) if item is None else _integers("item", item)
    floor = np.zeros(len(size), np.int64) if floor is None else _integers("floor", floor)
    if not len(lower) == len(upper) == len(item) or len(floor) != len(size):
        raise UserError("a packing problem needs as many lower as upper ends, and a size for each item")
    if not (0 <= capacity <= MOST_BYTES and 1 <= alignment <= MOST_BYTES):
        raise UserError(
            f"a memory of {capacity} bytes with an alignment of {alignment} cannot be packed; give at most {MOST_BYTES}"
        )
    for row in np.flatnonzero(upper <= lower):
        raise UserError(f"item {item[row]} is alive over {lower[row]}..{upper[row]}, which is no time at all")
    for row in np.flatnonzero((size < 1) | (floor < 0)):
        raise UserError(f"item {row} has {size[row]} bytes from byte {floor[row]} on; it needs one, from 0 on at least")
    if set(np.unique(item).tolist()) != set(range(len(size))):
        raise UserError(f"the spans belong to other items than the {len(size)} that have sizes")
    order = np.lexsort((lower, item))
    spans: list[list[int]] = []
    for number, begin, end in zip(item[order].tolist(), lower[order].tolist(), upper[order].tolist(), strict=True):
        if spans and spans[-1][0] == number and begin <= spans[-1][2]:
            spans[-1][2] = max(spans[-1][2], end)
        else:
            spans.append([number, begin, end])
    table = np.array(spans, np.int64).reshape(-1, 3)
    span_item, span_lower, span_upper = (np.ascontiguousarray(table[:, column]) for column in range(3))
    packing = Packing(size, span_item, span_lower, span_upper, int(capacity), int(alignment), floor)
    # No rule places an item higher than all others on top of each other.
    highest = (sum(packing.units.tolist()) + int(packing.lowest.max(initial=0))) * packing.alignment
    if highest > MOST_BYTES:
        raise UserError(
            f"the items take {highest} bytes on top of each other with an alignment of {alignment}, more than "
            f"{MOST_BYTES}; give fewer bytes, or a smaller alignment"
        )
    return packing


def _integers(name: str, values: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
    try:
        return np.asarray(values, np.int64)
    except OverflowError as error:
        raise UserError(f"`{name}` of a packing problem holds a number outside -2**63..2**63 - 1") from error


def collisions(packing: Packing, offsets: NDArray[np.int64]) -> list[str]:
    """Returns the errors of a packing in words, none for a solution. Shares no code with any packer.

    Args:
      packing: the problem.
      offsets: `[n]` bytes.
    """
    found = []
    ends = offsets + packing.size
    for i in np.flatnonzero((offsets < packing.floor) | (ends > packing.capacity) | (offsets % packing.alignment != 0)):
        found.append(f"item {i} at {offsets[i]}..{ends[i]} is out of bounds or not aligned")
    for a in range(len(packing.span_item)):
        i, rest = packing.span_item[a], packing.span_item[a + 1 :]
        together = (packing.span_lower[a + 1 :] < packing.span_upper[a]) & (
            packing.span_upper[a + 1 :] > packing.span_lower[a]
        )
        crossing = (offsets[rest] < ends[i]) & (ends[rest] > offsets[i]) & together & (rest != i)
        found += [f"items {i} and {j} share bytes" for j in rest[crossing]]
    return found


_INTS = vector(np.int64)


@kernel(_INTS, _INTS, _INTS, returns=types.UniTuple(_INTS, 2))
def _conflicts(start: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    n = len(start) - 1
    first = np.zeros(n + 1, np.int64)
    second = np.zeros(0, np.int64)
    for fill in range(2):
        count = 0
        for i in range(n):
            first[i] = count
            for j in range(n):
                # Hulls first: most pairs are far apart.
                if i == j or lower[start[j]] >= upper[start[i + 1] - 1] or upper[start[j + 1] - 1] <= lower[start[i]]:
                    continue
                together = False
                for a in range(start[i], start[i + 1]):
                    for b in range(start[j], start[j + 1]):
                        together = together or (lower[a] < upper[b] and lower[b] < upper[a])
                if together:
                    if fill:
                        second[count] = j
                    count += 1
        first[n] = count
        if not fill:
            second = np.zeros(count, np.int64)
    return first, second
