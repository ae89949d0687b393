"""A heap over bytes and times, with best fit (XLA: `GlobalDecreasingSizeBestFitHeap`)."""

from typing import Any

import numpy as np

from ...env.compiled.kernel import routine
from ...env.compiled.spans import SPAN, add_span
from ...env.compiled.struct import Rows, Struct, new_record, one, rows
from .problem import Problem

_WIDTH = 4  # 2**_WIDTH times share a bucket
_BLOCK = 64  # times that share a peak
NO_OFFSET = -1

# Bytes in use over an interval of times.
CHUNK = np.dtype(
    [
        ("first", np.int64),  # time
        ("last", np.int64),  # time
        ("offset", np.int64),  # lowest byte
        ("bytes", np.int64),
        ("before", np.int64),  # the chunk before it that begins in the same bucket, or -1
    ],
    align=True,
)
# An entry of a bucket's list: a chunk, and the next entry or -1.
LINK = np.dtype([("chunk", np.int64), ("next", np.int64)], align=True)
# Free bytes between chunks.
GAP = np.dtype(
    [
        ("size", np.int64),  # in units of the alignment; -1 once it has been tried
        ("start", np.int64),  # lowest byte
        ("end", np.int64),  # the byte after its last
    ],
    align=True,
)
HEAP_NOW = np.dtype(
    [
        ("chunks", np.int64),  # rows of `chunk` in use
        ("links", np.int64),  # rows of `link` in use
        ("is_full", np.int64),  # 1: a table overflowed
    ],
    align=True,
)


class Heap(Struct):
    """Chunks, and for each bucket of times two linked lists: of the chunks that overlap it, and that begin in it.

    The newest come first. What overlaps an interval overlaps its first bucket or begins in a later one, so that a chunk
    is looked at once, however long it is.

    Shape: `S` times.

    Attributes:
      chunk: of `CHUNK`.
      head: for each bucket the newest link of those that overlap it, or -1.
      begun: for each bucket the newest chunk that begins in it, or -1.
      link: of `LINK`.
      used: bytes in use at each of the times, and zeros up to a whole block. Of two values that meet in one time, one
        written in place of the other, one counts (XLA: `peak_memory_usage_`).
      peak: for each block of times no less than the most of `used`.
      taken: scratch, of `SPAN`: bytes in use, in units of the alignment.
      gap: scratch, of `GAP`.
      now: `HEAP_NOW`.
    """

    chunk: Rows = rows(CHUNK)
    head: Rows = rows(np.int64)
    begun: Rows = rows(np.int64)
    link: Rows = rows(LINK)
    used: Rows = rows(np.int64)
    peak: Rows = rows(np.int64)
    taken: Rows = rows(SPAN)
    gap: Rows = rows(GAP)
    now: Any = one(HEAP_NOW)


def make_heap(times: int, chunks: int, links: int) -> Heap:
    """Returns an empty heap for so many times, with space for so many chunks and links."""
    blocks = (times + 2) // _BLOCK + 1
    return Heap(
        chunk=np.zeros(chunks, CHUNK),
        head=np.full((times >> _WIDTH) + 2, -1, np.int64),
        begun=np.full((times >> _WIDTH) + 2, -1, np.int64),
        link=np.zeros(links, LINK),
        used=np.zeros(blocks * _BLOCK, np.int64),
        peak=np.zeros(blocks, np.int64),
        taken=np.zeros(chunks + 1, SPAN),
        gap=np.zeros(chunks + 2, GAP),
        now=new_record(HEAP_NOW),
    )


@routine
def start_over(problem: Problem, heap: Heap) -> None:
    """Frees all but the bytes that instructions keep to themselves."""
    now = heap.now
    now.chunks = now.links = now.is_full = 0
    for bucket in range(len(heap.head)):
        heap.head[bucket] = heap.begun[bucket] = -1
    for t in range(len(heap.used)):
        heap.used[t] = 0
    for block in range(len(heap.peak)):
        heap.peak[block] = 0
    for t in range(len(problem.reserved)):
        if problem.reserved[t] > 0:
            commit(heap, t, t, 0, problem.reserved[t])


@routine
def commit(heap: Heap, first: int, last: int, offset: int, size: int) -> None:
    """Puts bytes to use over the times `first..last` (XLA: `CommitChunk`); an empty interval changes nothing."""
    if first > last:
        return
    low = max(first, 0)
    now = heap.now
    if now.chunks >= len(heap.chunk) or now.links + (last >> _WIDTH) - (low >> _WIDTH) + 1 > len(heap.link):
        now.is_full = 1
        return
    chunk = heap.chunk[now.chunks]
    chunk.first, chunk.last, chunk.offset, chunk.bytes = low, last, offset, size
    chunk.before, heap.begun[low >> _WIDTH] = heap.begun[low >> _WIDTH], now.chunks
    for bucket in range(low >> _WIDTH, (last >> _WIDTH) + 1):
        link = heap.link[now.links]
        link.chunk, link.next = now.chunks, heap.head[bucket]
        heap.head[bucket] = now.links
        now.links += 1
    now.chunks += 1
    use(heap, low, last, size)


@routine
def use(heap: Heap, first: int, last: int, size: int) -> None:
    """Counts more bytes as in use over the times `first..last`, or fewer if `size` is negative."""
    used, peak = heap.used, heap.peak
    for t in range(first, last + 1):
        used[t] += size
    if size > 0:
        for block in range(first // _BLOCK, last // _BLOCK + 1):
            peak[block] += size


@routine
def free(heap: Heap, chunk: int) -> None:
    """Frees one chunk, which keeps its number."""
    row = heap.chunk[chunk]
    use(heap, row.first, row.last, -row.bytes)
    row.bytes = 0


@routine
def undo(heap: Heap, chunks: int) -> None:
    """Frees all but the oldest `chunks` chunks."""
    now = heap.now
    while now.chunks > chunks:
        now.chunks -= 1
        chunk = heap.chunk[now.chunks]
        heap.begun[chunk.first >> _WIDTH] = chunk.before
        for bucket in range(chunk.first >> _WIDTH, (chunk.last >> _WIDTH) + 1):
            heap.head[bucket] = heap.link[heap.head[bucket]].next
            now.links -= 1
        use(heap, chunk.first, chunk.last, -chunk.bytes)


@routine
def gather(problem: Problem, heap: Heap, first: int, last: int, count: int) -> int:
    """Adds the bytes in use within `first..last` to the `count` spans of `taken`; returns their new count."""
    low = max(first, 0)
    if low > last:
        return count
    at = heap.head[low >> _WIDTH]
    while at >= 0:
        link = heap.link[at]
        at = link.next
        chunk = heap.chunk[link.chunk]
        if chunk.first <= last and chunk.last >= low and chunk.bytes > 0:
            count = _take(problem, heap, link.chunk, count)
    for bucket in range((low >> _WIDTH) + 1, (last >> _WIDTH) + 1):
        number = heap.begun[bucket]
        while number >= 0:
            chunk = heap.chunk[number]
            if chunk.first <= last and chunk.bytes > 0:
                count = _take(problem, heap, number, count)
            number = chunk.before
    return count


@routine
def _take(problem: Problem, heap: Heap, number: int, count: int) -> int:
    """Adds the bytes of a chunk to the `count` spans of `taken`; returns their new count."""
    chunk, align = heap.chunk[number], problem.limit.alignment
    return add_span(heap.taken, count, chunk.offset // align, (chunk.offset + chunk.bytes + align - 1) // align)


@routine
def best_gap(problem: Problem, heap: Heap, count: int, size: int) -> int:
    """Returns the offset of the smallest gap of `size` bytes, the lowest of equal ones; `NO_OFFSET` if there is none.

    Gaps lie between the first `count` spans of `taken`; the free bytes above all of them are the last resort.
    """
    align = problem.limit.alignment
    need = (size + align - 1) // align
    reach, best, best_size = 0, -1, 0
    for index in range(count):
        gap = heap.taken[index].low - reach
        if gap >= need and (best < 0 or gap < best_size):
            best, best_size = reach, gap
        reach = heap.taken[index].high
    if best < 0:
        best = reach
    offset = best * align
    return offset if offset + size <= problem.limit.fast_bytes else NO_OFFSET


@routine
def latest_free(heap: Heap, first: int, last: int, offset: int, size: int) -> int:
    """Returns the last time, `last` at most, up to which bytes are free from `first` on; `first - 1` for none."""
    low, found = max(first, 0), last
    if low > last:
        return last
    at = heap.head[low >> _WIDTH]
    while at >= 0:
        link = heap.link[at]
        at = link.next
        chunk = heap.chunk[link.chunk]
        if chunk.first > found or chunk.last < low or chunk.bytes == 0:
            continue
        if chunk.offset < offset + size and offset < chunk.offset + chunk.bytes:
            found = max(chunk.first, low) - 1
    for bucket in range((low >> _WIDTH) + 1, (last >> _WIDTH) + 1):
        if found < last:
            return found
        number = heap.begun[bucket]
        while number >= 0:
            chunk = heap.chunk[number]
            number = chunk.before
            is_in_time = chunk.first <= found and chunk.bytes > 0
            if is_in_time and chunk.offset < offset + size and offset < chunk.offset + chunk.bytes:
                found = chunk.first - 1
    return found


@routine
def has_bytes(problem: Problem, heap: Heap, first: int, last: int, size: int) -> bool:
    """Returns whether each time has enough free bytes, contiguous or not: a quick test that rules most cases out."""
    used, peak, most = heap.used, heap.peak, problem.limit.fast_bytes - size
    t = max(first, 0)
    while t <= last:
        if t % _BLOCK == 0 and t + _BLOCK - 1 <= last:
            if peak[t // _BLOCK] > most and _peak(heap, t // _BLOCK) > most:
                return False
            t += _BLOCK
        else:
            if used[t] > most:
                return False
            t += 1
    return True


@routine
def _peak(heap: Heap, block: int) -> int:
    """Returns the most bytes in use at a time of a block, which `peak` then says."""
    used, most = heap.used, 0
    for t in range(block * _BLOCK, (block + 1) * _BLOCK):
        most = max(most, used[t])
    heap.peak[block] = most
    return most


@routine
def bytes_since(problem: Problem, heap: Heap, earliest: int, end: int, size: int) -> int:
    """Returns the first time after `earliest` from which each before `end` has enough free bytes, else `end`."""
    used, peak, most = heap.used, heap.peak, problem.limit.fast_bytes - size
    t = end
    while t - 1 > earliest:
        block = t // _BLOCK - 1
        whole = t % _BLOCK == 0 and t - _BLOCK > earliest
        if whole and (peak[block] <= most or _peak(heap, block) <= most):
            t -= _BLOCK
        elif used[t - 1] <= most:
            t -= 1
        else:
            break
    return t


@routine
def fit(problem: Problem, heap: Heap, first: int, last: int, size: int, preferred_offset: int) -> int:
    """Returns an offset for `size` bytes over `first..last`, or `NO_OFFSET` (XLA: `FindChunkCandidate`).

    A `preferred_offset` that is not negative is the only one tried.
    """
    if preferred_offset >= 0:
        if preferred_offset + size > problem.limit.fast_bytes:
            return NO_OFFSET
        return preferred_offset if latest_free(heap, first, last, preferred_offset, size) >= last else NO_OFFSET
    if not has_bytes(problem, heap, first, last, size):
        return NO_OFFSET
    return best_gap(problem, heap, gather(problem, heap, first, last, 0), size)
