"""The bandwidth that copies of one direction share, first in, first out (XLA: `AsynchronousCopyResource`).

Each instruction supplies copies with the seconds that it runs. A copy that is not complete when the next one starts
delays it.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...env.compiled.jit import njit

# Columns of `CopyResource.copy`: a copy moves over the times between start and end, both excluded.
(
    Q_START,
    Q_END,
    Q_NEED,  # scaled seconds
) = range(3)
# Columns of `CopyResource.counts`: copies, entries of the log, whether a table overflowed.
N_COPIES, N_LOGGED, N_FULL = range(3)


class CopyResource(NamedTuple):
    """The copies of one direction. Shape: `S` times; seconds are scaled (`problem.SCALE`).

    Attributes:
      copy: `[., 3]`, columns `Q_*`, in the order of start; equal ones in the order in which they were added.
      counts: `[3]`, columns `N_*`.
      before: `[S + 1]` seconds that all instructions before a time supply.
      delay: `[S + 2]` at each time, seconds that copies which started before still need.
      log: `[., 2]` a time, and its delay before a change: `take_back` restores it.
      begun, ended: Fenwick trees over times, which count copies that start and that end.
    """

    copy: NDArray[np.int64]
    counts: NDArray[np.int64]
    before: NDArray[np.int64]
    delay: NDArray[np.int64]
    log: NDArray[np.int64]
    begun: NDArray[np.int64]
    ended: NDArray[np.int64]


def make_resource(supply: NDArray[np.int64], copies: int) -> CopyResource:
    """Returns a resource without copies, for scaled seconds `supply[S]` and with space for so many copies."""
    times = len(supply)
    return CopyResource(
        np.zeros((copies, 3), np.int64),
        np.zeros(3, np.int64),
        np.concatenate([np.zeros(1, np.int64), np.cumsum(supply)]),
        np.zeros(times + 2, np.int64),
        np.zeros((16 * times + 4096, 2), np.int64),
        np.zeros(times + 4, np.int64),
        np.zeros(times + 4, np.int64),
    )


@njit(cache=True, nogil=True)
def clear(resource: CopyResource) -> None:
    """Removes all copies."""
    resource.counts[:] = 0
    resource.delay[:] = 0
    resource.begun[:] = 0
    resource.ended[:] = 0


@njit(cache=True, nogil=True, forceinline=True)
def _upper(resource: CopyResource, start: int) -> int:
    """Returns how many copies start at `start` or before."""
    low, high = 0, resource.counts[N_COPIES]
    while low < high:
        middle = (low + high) // 2
        if resource.copy[middle, Q_START] <= start:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True, forceinline=True)
def _set_delay(resource: CopyResource, t: int, delay: int) -> None:
    """Changes a delay and logs the former one."""
    if resource.delay[t] != delay:
        at = resource.counts[N_LOGGED]
        if at < len(resource.log):
            resource.log[at, 0], resource.log[at, 1] = t, resource.delay[t]
            resource.counts[N_LOGGED] += 1
        else:
            resource.counts[N_FULL] = 1
        resource.delay[t] = delay


@njit(cache=True, nogil=True, forceinline=True)
def take_back(resource: CopyResource, logged: int) -> None:
    """Restores all delays but the first `logged` that changed."""
    while resource.counts[N_LOGGED] > logged:
        resource.counts[N_LOGGED] -= 1
        t, delay = resource.log[resource.counts[N_LOGGED]]
        resource.delay[t] = delay


@njit(cache=True, nogil=True)
def consume(resource: CopyResource, supply: np.ndarray, start: int, end: int, need: int) -> bool:
    """Moves a copy after those that started before it, and delays the later ones (XLA: `ConsumeResource`).

    Changes delays in any case; `take_back` restores them.

    Args:
      resource: the copies before.
      supply: `[S]` scaled seconds.
      start: time after which the copy starts.
      end: time before which it must be complete.
      need: scaled seconds that it takes; a copy of 0 is always accepted.

    Returns:
      Whether every copy is still complete in time.
    """
    if need == 0:
        return True
    following = _upper(resource, start)
    if start + 1 < end:
        need += resource.delay[start + 1]
    while True:
        pushed = -1
        next_start = resource.copy[following, Q_START] if following < resource.counts[N_COPIES] else 1 << 60
        t = start + 1
        if t < end and need > resource.before[end] - resource.before[t]:
            return False
        while t < end and need > 0:
            if next_start == t - 1 and pushed < 0:
                pushed = need
            if pushed < 0:
                _set_delay(resource, t, need)
            need -= min(need, supply[t])
            t += 1
        if need > 0:
            return False
        if pushed < 0:
            return True
        start, end = resource.copy[following, Q_START], resource.copy[following, Q_END]
        need = pushed + resource.copy[following, Q_NEED]
        following += 1


@njit(cache=True, nogil=True, forceinline=True)
def has_enough(resource: CopyResource, supply: np.ndarray, start: int, end: int, need: int) -> bool:
    """Returns whether one more copy would leave all complete in time (XLA: `HasEnoughResource`)."""
    logged = resource.counts[N_LOGGED]
    fits = consume(resource, supply, start, end, need)
    take_back(resource, logged)
    return fits


@njit(cache=True, nogil=True)
def _count(tree: np.ndarray, t: int, change: int) -> None:
    """Adds a change at a time to a Fenwick tree."""
    at = t + 2
    while at < len(tree):
        tree[at] += change
        at += at & -at


@njit(cache=True, nogil=True)
def _sum(tree: np.ndarray, t: int) -> int:
    """Returns the count of a Fenwick tree up to and including `t`."""
    at, total = min(t + 2, len(tree) - 1), 0
    while at > 0:
        total += tree[at]
        at -= at & -at
    return total


@njit(cache=True, nogil=True, forceinline=True)
def outstanding(resource: CopyResource, first: int, last: int) -> int:
    """Returns how many copies are in flight at some time of `first..last`."""
    return _sum(resource.begun, last) - _sum(resource.ended, first - 1)


@njit(cache=True, nogil=True)
def add(resource: CopyResource, supply: np.ndarray, start: int, end: int, need: int, counted_from: int) -> None:
    """Adds a copy that `has_enough` accepts (XLA: `AddCopy`); it is in flight from `counted_from` through `end`."""
    consume(resource, supply, start, end, need)
    count = resource.counts[N_COPIES]
    if count >= len(resource.copy):
        resource.counts[N_FULL] = 1
        return
    at = _upper(resource, start)
    for index in range(count, at, -1):
        resource.copy[index] = resource.copy[index - 1]
    resource.copy[at, Q_START], resource.copy[at, Q_END], resource.copy[at, Q_NEED] = start, end, need
    resource.counts[N_COPIES] += 1
    _count(resource.begun, counted_from, 1)
    _count(resource.ended, end, 1)


@njit(cache=True, nogil=True)
def remove(resource: CopyResource, start: int, counted_from: int, end: int) -> None:
    """Removes the copy added last of those that start at `start` (XLA: `RemoveCopy`); `take_back` restores delays."""
    at = _upper(resource, start) - 1
    for index in range(at, resource.counts[N_COPIES] - 1):
        resource.copy[index] = resource.copy[index + 1]
    resource.counts[N_COPIES] -= 1
    _count(resource.begun, counted_from, -1)
    _count(resource.ended, end, -1)
