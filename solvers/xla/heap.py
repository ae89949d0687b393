"""What lies where in fast memory, and where there is room: best fit (XLA: `GlobalDecreasingSizeBestFitHeap`)."""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ...env.compiled.sorting import sort
from .problem import L_ALIGN, L_FAST, Problem

_WIDTH = 4  # binary digits of the times that share a bucket
NO_OFFSET = -1

# Columns of `Heap.chunk`: the chunk holds its bytes over the times first..last.
C_FIRST, C_LAST, C_OFFSET, C_SIZE, C_HOLDER = range(5)
# Columns of `Heap.counts`.
N_CHUNKS, N_LINKS, N_OVERFLOW = range(3)


class Heap(NamedTuple):
    """Chunks, and per bucket of times a list of those that overlap it, the newest first.

    Attributes:
      chunk: `[K, 5]`.
      head: per bucket its newest link, or -1.
      link: `[E, 2]` chunk, next link.
      counts: chunks, links, whether one of them ran out.
      used: `[S]` bytes in chunks at each time; after a repack, values in place count twice where they meet, as in XLA.
      exact: `[S]` the same, each byte once.
      taken: scratch: start and end of what is taken, in units of the alignment, as one number.
      gap: scratch.
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
    """Returns an empty heap."""
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
    """Takes bytes over the times `first..last`, both within the program; less than one time is nothing."""
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


@njit(cache=True, nogil=True)
def undo(heap: Heap, chunks: int) -> None:
    """Gives back all but the oldest `chunks` chunks."""
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
    """Adds what is taken at some time of `first..last` to the `count` entries of `taken`; returns their new number."""
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
            # Counted in the first bucket that it shares with the interval.
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
    """Returns the lowest offset of the smallest gap with room between the first `count` entries of `taken`."""
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
    """Returns whether bytes are free over all of `first..last`, within fast memory."""
    if offset + size > problem.limit[L_FAST]:
        return False
    return latest_free(heap, first, last, offset, size) >= last


@njit(cache=True, nogil=True, forceinline=True)
def latest_free(heap: Heap, first: int, last: int, offset: int, size: int) -> int:
    """Returns the last time up to which bytes are free from `first` on, `first - 1` for none, at most `last`."""
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
    """Returns an offset for `size` bytes over `first..last`, `preferred_offset` alone unless it is negative; or `NO_OFFSET`."""
    if preferred_offset >= 0:
        return preferred_offset if is_free(problem, heap, first, last, preferred_offset, size) else NO_OFFSET
    if not has_bytes(problem, heap, first, last, size):
        return NO_OFFSET
    return best_gap(problem, heap, gather(problem, heap, first, last, 0), size)


@njit(cache=True, nogil=True, forceinline=True)
def has_bytes(problem: Problem, heap: Heap, first: int, last: int, size: int) -> bool:
    """Returns whether there are enough free bytes at each time, wherever they are: a quick no."""
    most = problem.limit[L_FAST] - size
    for t in range(max(first, 0), last + 1):  # noqa: SIM110 -- compiled
        if heap.exact[t] > most:
            return False
    return True
