"""A heap over bytes and times, with best fit (XLA: `GlobalDecreasingSizeBestFitHeap`)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...env.compiled.jit import njit
from ...env.compiled.sorting import sort
from .problem import L_ALIGN, L_FAST, Problem

_WIDTH = 4  # 2**_WIDTH times share a bucket
NO_OFFSET = -1

# Columns of `Heap.chunk`: bytes in use over an interval of times.
(
    C_FIRST,  # first time
    C_LAST,  # last time
    C_OFFSET,  # lowest byte
    C_SIZE,  # bytes
    C_HOLDER,  # the stay that holds it, or -1
) = range(5)
# Columns of `Heap.counts`: rows in use, and whether a table overflowed.
N_CHUNKS, N_LINKS, N_OVERFLOW = range(3)


class Heap(NamedTuple):
    """Chunks, and for each bucket of times a linked list of the chunks that overlap it, the newest first.

    Attributes:
      chunk: `[., 5]`, columns `C_*`.
      head: for each bucket its newest link, or -1.
      link: `[., 2]` chunk, next link.
      counts: `[3]`, columns `N_*`.
      used: `[S]` bytes of the chunks at each time. After a repack two values of a buffer that meet in one time, one
        written in place of the other, count twice, as in XLA.
      exact: `[S]` the same, each byte once.
      taken: scratch; intervals of bytes in use, in units of the alignment, packed as `start << 32 | end`.
      gap: scratch; `[., 2]` size and start of gaps, in units of the alignment.
    """

    chunk: NDArray[np.int64]
    head: NDArray[np.int64]
    link: NDArray[np.int64]
    counts: NDArray[np.int64]
    used: NDArray[np.int64]
    exact: NDArray[np.int64]
    taken: NDArray[np.int64]
    gap: NDArray[np.int64]


def make_heap(times: int, chunks: int, links: int) -> Heap:
    """Returns an empty heap for so many times, with space for so many chunks and links."""
    return Heap(
        np.zeros((chunks, 5), np.int64),
        np.full((times >> _WIDTH) + 2, -1, np.int64),
        np.zeros((links, 2), np.int64),
        np.zeros(3, np.int64),
        np.zeros(times + 2, np.int64),
        np.zeros(times + 2, np.int64),
        np.zeros(chunks + 1, np.int64),
        np.zeros((chunks + 2, 2), np.int64),
    )


@njit(cache=True, nogil=True)
def clear(heap: Heap) -> None:
    """Empties a heap."""
    heap.head[:] = -1
    heap.counts[:] = 0
    heap.used[:] = 0
    heap.exact[:] = 0


@njit(cache=True, nogil=True)
def commit(heap: Heap, first: int, last: int, offset: int, size: int, holder: int) -> None:
    """Puts bytes to use over the times `first..last` (XLA: `CommitChunk`); an empty interval changes nothing."""
    if first > last:
        return
    low = max(first, 0)
    chunk = heap.counts[N_CHUNKS]
    if chunk >= len(heap.chunk) or heap.counts[N_LINKS] + (last >> _WIDTH) - (low >> _WIDTH) + 1 > len(heap.link):
        heap.counts[N_OVERFLOW] = 1
        return
    heap.counts[N_CHUNKS] += 1
    row = heap.chunk[chunk]
    row[C_FIRST], row[C_LAST], row[C_OFFSET], row[C_SIZE], row[C_HOLDER] = low, last, offset, size, holder
    for bucket in range(low >> _WIDTH, (last >> _WIDTH) + 1):
        link = heap.counts[N_LINKS]
        heap.counts[N_LINKS] += 1
        heap.link[link, 0] = chunk
        heap.link[link, 1] = heap.head[bucket]
        heap.head[bucket] = link
    for t in range(low, last + 1):
        heap.used[t] += size
        heap.exact[t] += size


@njit(cache=True, nogil=True, forceinline=True)
def reserve(problem: Problem, heap: Heap) -> None:
    """Puts to use the bytes that instructions keep to themselves."""
    for t in range(len(problem.reserved)):
        if problem.reserved[t] > 0:
            commit(heap, t, t, 0, problem.reserved[t], -1)


@njit(cache=True, nogil=True)
def undo(heap: Heap, chunks: int) -> None:
    """Frees all but the oldest `chunks` chunks."""
    while heap.counts[N_CHUNKS] > chunks:
        heap.counts[N_CHUNKS] -= 1
        row = heap.chunk[heap.counts[N_CHUNKS]]
        for bucket in range(row[C_FIRST] >> _WIDTH, (row[C_LAST] >> _WIDTH) + 1):
            heap.head[bucket] = heap.link[heap.head[bucket], 1]
            heap.counts[N_LINKS] -= 1
        for t in range(row[C_FIRST], row[C_LAST] + 1):
            heap.used[t] -= row[C_SIZE]
            heap.exact[t] -= row[C_SIZE]


@njit(cache=True, nogil=True)
def gather(problem: Problem, heap: Heap, first: int, last: int, count: int) -> int:
    """Appends the bytes in use within `first..last` to the `count` entries of `taken`; returns their new count."""
    align = problem.limit[L_ALIGN]
    low = max(first, 0)
    for bucket in range(low >> _WIDTH, (last >> _WIDTH) + 1):
        begin = bucket << _WIDTH
        link = heap.head[bucket]
        while link >= 0:
            row = heap.chunk[heap.link[link, 0]]
            link = heap.link[link, 1]
            if row[C_FIRST] > last or row[C_LAST] < low or row[C_SIZE] == 0:
                continue
            # A chunk counts in the first bucket that it shares with the interval.
            if max(row[C_FIRST], low) < begin:
                continue
            if count >= len(heap.taken):
                heap.counts[N_OVERFLOW] = 1
                return count
            heap.taken[count] = ((row[C_OFFSET] // align) << 32) | ((row[C_OFFSET] + row[C_SIZE] + align - 1) // align)
            count += 1
    return count


@njit(cache=True, nogil=True)
def best_gap(problem: Problem, heap: Heap, count: int, size: int) -> int:
    """Returns the offset of the smallest gap of `size` bytes, the lowest of equal ones; `NO_OFFSET` if there is none.

    Gaps lie between the first `count` entries of `taken`; the free bytes above all of them are the last resort.
    """
    align = problem.limit[L_ALIGN]
    need = (size + align - 1) // align
    taken = heap.taken[:count]
    if count > 1:
        sort(taken)
    reach, best, best_size = 0, -1, 0
    for index in range(count):
        low, high = taken[index] >> 32, taken[index] & 0xFFFFFFFF
        gap = low - reach
        if gap >= need and (best < 0 or gap < best_size):
            best, best_size = reach, gap
        reach = max(reach, high)
    if best < 0:
        best = reach
    offset = best * align
    return offset if offset + size <= problem.limit[L_FAST] else NO_OFFSET


@njit(cache=True, nogil=True, forceinline=True)
def is_free(problem: Problem, heap: Heap, first: int, last: int, offset: int, size: int) -> bool:
    """Returns whether bytes lie within fast memory and are free over all of `first..last`."""
    if offset + size > problem.limit[L_FAST]:
        return False
    return latest_free(heap, first, last, offset, size) >= last


@njit(cache=True, nogil=True, forceinline=True)
def latest_free(heap: Heap, first: int, last: int, offset: int, size: int) -> int:
    """Returns the last time, `last` at most, up to which bytes are free from `first` on; `first - 1` for none."""
    low = max(first, 0)
    for bucket in range(low >> _WIDTH, (last >> _WIDTH) + 1):
        begin = bucket << _WIDTH
        link = heap.head[bucket]
        found = last
        while link >= 0:
            row = heap.chunk[heap.link[link, 0]]
            link = heap.link[link, 1]
            if row[C_FIRST] > found or row[C_LAST] < low or max(row[C_FIRST], low) < begin or row[C_SIZE] == 0:
                continue
            if row[C_OFFSET] < offset + size and offset < row[C_OFFSET] + row[C_SIZE]:
                found = max(row[C_FIRST], low) - 1
        if found < last:
            return found
    return last


@njit(cache=True, nogil=True, forceinline=True)
def fit(problem: Problem, heap: Heap, first: int, last: int, size: int, preferred_offset: int) -> int:
    """Returns an offset for `size` bytes over `first..last`, or `NO_OFFSET` (XLA: `FindChunkCandidate`).

    A `preferred_offset` that is not negative is the only one tried.
    """
    if preferred_offset >= 0:
        return preferred_offset if is_free(problem, heap, first, last, preferred_offset, size) else NO_OFFSET
    if not has_bytes(problem, heap, first, last, size):
        return NO_OFFSET
    return best_gap(problem, heap, gather(problem, heap, first, last, 0), size)


@njit(cache=True, nogil=True, forceinline=True)
def has_bytes(problem: Problem, heap: Heap, first: int, last: int, size: int) -> bool:
    """Returns whether each time has enough free bytes, contiguous or not: a quick test that rules most cases out."""
    most = problem.limit[L_FAST] - size
    for t in range(max(first, 0), last + 1):  # noqa: SIM110 -- compiled
        if heap.exact[t] > most:
            return False
    return True
