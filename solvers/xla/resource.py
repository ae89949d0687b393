"""How much the copies of one direction can move, and when: first in, first out (XLA: `AsynchronousCopyResource`).

Copies draw on what instructions supply while they run. One that is not done when the next begins pushes it back.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

# Columns of `Queue.copy`: a copy may move over the times between start and end, both excluded.
Q_START, Q_END, Q_NEED = range(3)
# Columns of `Queue.counts`.
N_COPIES, N_LOGGED, N_FULL = range(3)


class Queue(NamedTuple):
    """The copies of one direction.

    Attributes:
      copy: `[C, 3]` in the order of start, equal ones in the order they came.
      counts: copies, entries of the log, whether there was no more room.
      before: `[S + 1]` what all instructions before a time supply.
      delay: `[S + 1]` at each time, what the copies that began before still have to move.
      log: `[G, 2]` delays as they were before they changed, to take changes back.
      begun, ended: Fenwick trees over times: how many copies begin and end.
    """

    copy: NDArray[np.int64]
    counts: NDArray[np.int64]
    before: NDArray[np.int64]
    delay: NDArray[np.int64]
    log: NDArray[np.int64]
    begun: NDArray[np.int64]
    ended: NDArray[np.int64]


def make_queue(supply: NDArray[np.int64], copies: int) -> Queue:
    """Returns an empty queue for `supply[S]`."""
    times = len(supply)
    return Queue(
        np.zeros((copies, 3), np.int64),
        np.zeros(3, np.int64),
        np.concatenate([np.zeros(1, np.int64), np.cumsum(supply)]),
        np.zeros(times + 2, np.int64),
        np.zeros((16 * times + 4096, 2), np.int64),
        np.zeros(times + 4, np.int64),
        np.zeros(times + 4, np.int64),
    )


@njit(cache=True, nogil=True)
def clear(queue: Queue) -> None:
    """Empties a queue."""
    queue.counts[:] = 0
    queue.delay[:] = 0
    queue.begun[:] = 0
    queue.ended[:] = 0


@njit(cache=True, nogil=True, forceinline=True)
def _upper(queue: Queue, start: int) -> int:
    """Returns the number of copies that begin at `start` or before."""
    low, high = 0, queue.counts[N_COPIES]
    while low < high:
        middle = (low + high) // 2
        if queue.copy[middle, Q_START] <= start:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True, forceinline=True)
def _set_delay(queue: Queue, t: int, delay: int) -> None:
    if queue.delay[t] != delay:
        at = queue.counts[N_LOGGED]
        if at < len(queue.log):
            queue.log[at, 0], queue.log[at, 1] = t, queue.delay[t]
            queue.counts[N_LOGGED] += 1
        else:
            queue.counts[N_FULL] = 1
        queue.delay[t] = delay


@njit(cache=True, nogil=True, forceinline=True)
def take_back(queue: Queue, logged: int) -> None:
    """Undoes all changes of delays but the first `logged`."""
    while queue.counts[N_LOGGED] > logged:
        queue.counts[N_LOGGED] -= 1
        t, delay = queue.log[queue.counts[N_LOGGED]]
        queue.delay[t] = delay


@njit(cache=True, nogil=True)
def consume(queue: Queue, supply: np.ndarray, start: int, end: int, need: int) -> bool:
    """Moves `need` between the times, after what began before, and pushes later copies back.

    Returns whether every copy still ends in time. Changes delays in any case: `take_back` undoes them.
    A copy of nothing always does, however late the others are.
    """
    if need == 0:
        return True
    following = _upper(queue, start)
    if start + 1 < end:
        need += queue.delay[start + 1]
    while True:
        pushed = -1
        next_start = queue.copy[following, Q_START] if following < queue.counts[N_COPIES] else 1 << 60
        t = start + 1
        if t < end and need > queue.before[end] - queue.before[t]:
            return False
        while t < end and need > 0:
            if next_start == t - 1 and pushed < 0:
                pushed = need
            if pushed < 0:
                _set_delay(queue, t, need)
            need -= min(need, supply[t])
            t += 1
        if need > 0:
            return False
        if pushed < 0:
            return True
        start, end = queue.copy[following, Q_START], queue.copy[following, Q_END]
        need = pushed + queue.copy[following, Q_NEED]
        following += 1


@njit(cache=True, nogil=True, forceinline=True)
def enough(queue: Queue, supply: np.ndarray, start: int, end: int, need: int) -> bool:
    """Returns whether one more copy would leave all of them done in time."""
    logged = queue.counts[N_LOGGED]
    fits = consume(queue, supply, start, end, need)
    take_back(queue, logged)
    return fits


@njit(cache=True, nogil=True)
def _count(tree: np.ndarray, t: int, change: int) -> None:
    at = t + 2
    while at < len(tree):
        tree[at] += change
        at += at & -at


@njit(cache=True, nogil=True)
def _sum(tree: np.ndarray, t: int) -> int:
    """Returns how many are at `t` or before."""
    at, total = min(t + 2, len(tree) - 1), 0
    while at > 0:
        total += tree[at]
        at -= at & -at
    return total


@njit(cache=True, nogil=True, forceinline=True)
def outstanding(queue: Queue, first: int, last: int) -> int:
    """Returns how many copies are in flight at some time of `first..last`."""
    return _sum(queue.begun, last) - _sum(queue.ended, first - 1)


@njit(cache=True, nogil=True)
def add(queue: Queue, supply: np.ndarray, start: int, end: int, need: int, counted_from: int) -> None:
    """Adds a copy that `enough` has accepted; it counts as in flight from `counted_from` through `end`."""
    consume(queue, supply, start, end, need)
    count = queue.counts[N_COPIES]
    if count >= len(queue.copy):
        queue.counts[N_FULL] = 1
        return
    at = _upper(queue, start)
    for index in range(count, at, -1):
        queue.copy[index] = queue.copy[index - 1]
    queue.copy[at, Q_START], queue.copy[at, Q_END], queue.copy[at, Q_NEED] = start, end, need
    queue.counts[N_COPIES] += 1
    _count(queue.begun, counted_from, 1)
    _count(queue.ended, end, 1)


@njit(cache=True, nogil=True)
def remove(queue: Queue, start: int, counted_from: int, end: int) -> None:
    """Takes out the copy that was added last of those that begin at `start`; its delays are `take_back`'s."""
    at = _upper(queue, start) - 1
    for index in range(at, queue.counts[N_COPIES] - 1):
        queue.copy[index] = queue.copy[index + 1]
    queue.counts[N_COPIES] -= 1
    _count(queue.begun, counted_from, -1)
    _count(queue.ended, end, -1)
