"""Sorting of rows in compiled code (`env/compiled/sorting.py` sorts arrays)."""

from ...env.compiled.kernel import routine
from ...env.compiled.struct import Rows

# Runs of this length are sorted by insertion before they are merged.
_RUN = 16


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
