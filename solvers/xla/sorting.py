"""Sorting of rows in compiled code (`env/compiled/sorting.py` sorts arrays)."""

from ...env.compiled.kernel import routine
from ...env.compiled.struct import Rows

# Runs of this length are sorted by insertion before they are merged.
_RUN = 16
# Rows up to so many are sorted by insertion alone.
_FEW = 24
# Bits of a digit, by which longer rows are sorted digit by digit.
_DIGIT = 9
BINS = 1 << _DIGIT


@routine
def sort(keys: Rows, other: Rows, count: int) -> None:
    """Sorts the first `count` of integer `keys` in place, ascending; `other` is scratch, as long as they."""
    for begin in range(0, count, _RUN):
        for k in range(begin + 1, min(begin + _RUN, count)):
            key, j = keys[k], k
            while j > begin and keys[j - 1] > key:
                keys[j] = keys[j - 1]
                j -= 1
            keys[j] = key
    one, two, swapped = keys, other, False
    width = _RUN
    while width < count:
        for begin in range(0, count, 2 * width):
            middle, end = min(begin + width, count), min(begin + 2 * width, count)
            left, right = begin, middle
            for k in range(begin, end):
                if left < middle and (right >= end or one[left] <= one[right]):
                    two[k] = one[left]
                    left += 1
                else:
                    two[k] = one[right]
                    right += 1
        one, two, swapped = two, one, not swapped
        width *= 2
    if swapped:
        for k in range(count):
            keys[k] = other[k]


@routine
def sort_by_digits(keys: Rows, other: Rows, bins: Rows, count: int, lowest: int, largest: int) -> None:
    """Sorts the first `count` of `keys` in place by their bits from `lowest` on, ascending, equal ones in any order.

    Args:
      keys: integers, none of them negative.
      other: scratch, as long as they.
      bins: scratch, `[BINS]`.
      count: number of keys.
      lowest: the lowest bit that counts.
      largest: no key has more than that in the bits from `lowest` on.
    """
    if count <= _FEW:
        for k in range(1, count):
            key, j = keys[k], k
            while j > 0 and keys[j - 1] > key:
                keys[j] = keys[j - 1]
                j -= 1
            keys[j] = key
        return
    one, two, swapped = keys, other, False
    shift = lowest
    while largest >> (shift - lowest) > 0:
        for digit in range(BINS):
            bins[digit] = 0
        for k in range(count):
            bins[(one[k] >> shift) & (BINS - 1)] += 1
        before = 0
        for digit in range(BINS):
            here = bins[digit]
            bins[digit] = before
            before += here
        for k in range(count):
            key = one[k]
            digit = (key >> shift) & (BINS - 1)
            two[bins[digit]] = key
            bins[digit] += 1
        one, two, swapped = two, one, not swapped
        shift += _DIGIT
    if swapped:
        for k in range(count):
            keys[k] = other[k]
