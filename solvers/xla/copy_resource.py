"""The bandwidth that copies of one direction share, first in, first out (XLA: `AsynchronousCopyResource`).

Each instruction supplies copies with the seconds that it runs. A copy that is not complete when the next one starts
delays it.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...env.compiled.kernel import routine
from ...env.compiled.struct import Rows, Struct, new_record, one, rows

# A copy; it moves over the times between start and end, both excluded.
COPY = np.dtype(
    [
        ("start", np.int64),
        ("end", np.int64),
        ("need", np.int64),  # scaled seconds
        ("before", np.int64),  # the copy before it in their order, or -1
        ("after", np.int64),  # the copy after it, or -1; of a row that is free, the next one
    ],
    align=True,
)
_BLOCK = 64  # times that share a count of copies
# A window in which a copy counts as in flight: its last time, and the next window with the same first time, or -1.
WINDOW = np.dtype([("last", np.int64), ("next", np.int64)], align=True)
# A delay before a change.
CHANGE = np.dtype([("time", np.int64), ("delay", np.int64)], align=True)
RESOURCE_NOW = np.dtype(
    [
        ("copies", np.int64),  # that count
        ("rows", np.int64),  # rows of `copy` that were ever in use
        ("first", np.int64),  # of the copies in their order, or -1
        ("free", np.int64),  # the first row of `copy` that is free again, or -1
        ("changes", np.int64),  # rows of `change` in use
        ("windows", np.int64),  # rows of `window` that were ever in use
        ("spare", np.int64),  # the first of these rows that is free, or -1
        ("is_full", np.int64),  # 1: a table overflowed
    ],
    align=True,
)


class CopyResource(Struct):
    """The copies of one direction. Shape: `S` times; seconds are scaled (`problem.SCALE`).

    Attributes:
      supply: `[S]` seconds that each instruction supplies.
      before: `[S + 1]` seconds that all instructions before a time supply.
      copy: of `COPY`; a linked list in the order of start, equal ones in the order in which they were added.
      newest: `[S + 4]` for each start, plus 1, the copy that was added last, or -1.
      begin: copies that start in each block of times.
      delay: `[S + 2]` at each time, seconds that copies which started before still need.
      change: of `CHANGE`, changes of delays, which `take_back` undoes.
      window: of `WINDOW`, all that count.
      first_window: `[S + 4]` for each first time of a window, plus 1, the newest of its windows, or -1.
      begun, ended: `[S + 4]` Fenwick trees over times, which count windows that begin and that end.
      now: `RESOURCE_NOW`.
    """

    supply: Rows = rows(np.int64)
    before: Rows = rows(np.int64)
    copy: Rows = rows(COPY)
    newest: Rows = rows(np.int64)
    begin: Rows = rows(np.int64)
    delay: Rows = rows(np.int64)
    change: Rows = rows(CHANGE)
    window: Rows = rows(WINDOW)
    first_window: Rows = rows(np.int64)
    begun: Rows = rows(np.int64)
    ended: Rows = rows(np.int64)
    now: Any = one(RESOURCE_NOW)


def make_resource(supply: NDArray[np.int64], copies: int, windows: int) -> CopyResource:
    """Returns a resource without copies, for scaled seconds `supply[S]`, with space for so many copies and windows."""
    times = len(supply)
    return CopyResource(
        supply=supply,
        before=np.concatenate([np.zeros(1, np.int64), np.cumsum(supply)]),
        copy=np.zeros(copies, COPY),
        newest=np.full(times + 4, -1, np.int64),
        begin=np.zeros((times + 4) // _BLOCK + 1, np.int64),
        delay=np.zeros(times + 2, np.int64),
        change=np.zeros(16 * times + 4096, CHANGE),
        window=np.zeros(windows, WINDOW),
        first_window=np.full(times + 4, -1, np.int64),
        begun=np.zeros(times + 4, np.int64),
        ended=np.zeros(times + 4, np.int64),
        now=new_record(RESOURCE_NOW),
    )


@routine
def clear(resource: CopyResource) -> None:
    """Removes all copies."""
    now = resource.now
    now.copies = now.rows = now.changes = now.is_full = now.windows = 0
    now.first = now.free = now.spare = -1
    for t in range(len(resource.delay)):
        resource.delay[t] = 0
    for at in range(len(resource.begun)):
        resource.begun[at] = 0
        resource.ended[at] = 0
        resource.first_window[at] = resource.newest[at] = -1
    for block in range(len(resource.begin)):
        resource.begin[block] = 0


@routine
def _last(resource: CopyResource, start: int) -> int:
    """Returns the last of the copies that start at `start` or before, or -1."""
    newest, begin = resource.newest, resource.begin
    at = start + 1
    while at >= 0:
        if newest[at] >= 0:
            return newest[at]
        at -= 1
        while at % _BLOCK == _BLOCK - 1 and at >= 0 and begin[at // _BLOCK] == 0:
            at -= _BLOCK
    return -1


@routine
def _following(resource: CopyResource, copy: int) -> int:
    """Returns the copy after one, the first after -1; -1 if there is none."""
    return resource.now.first if copy < 0 else resource.copy[copy].after


@routine
def take_back(resource: CopyResource, changes: int) -> None:
    """Restores all delays but the first `changes` that changed."""
    while resource.now.changes > changes:
        resource.now.changes -= 1
        change = resource.change[resource.now.changes]
        resource.delay[change.time] = change.delay


@routine
def consume(resource: CopyResource, start: int, end: int, need: int) -> bool:
    """Moves a copy after those that started before it, and delays the later ones (XLA: `ConsumeResource`).

    Changes delays in any case; `take_back` restores them.

    Args:
      resource: the copies before.
      start: time after which the copy starts.
      end: time before which it must be complete.
      need: scaled seconds that it takes; a copy of 0 is always accepted.

    Returns:
      Whether every copy is still complete in time.
    """
    if need == 0:
        return True
    now = resource.now
    following = _following(resource, _last(resource, start))
    if start + 1 < end:
        need += resource.delay[start + 1]
    while True:
        pushed = -1
        next_start = resource.copy[following].start if following >= 0 else 1 << 60
        t = start + 1
        if t < end and need > resource.before[end] - resource.before[t]:
            return False
        while t < end and need > 0:
            if next_start == t - 1 and pushed < 0:
                pushed = need
            if pushed < 0 and resource.delay[t] != need:
                if now.changes < len(resource.change):
                    change = resource.change[now.changes]
                    change.time, change.delay = t, resource.delay[t]
                    now.changes += 1
                else:
                    now.is_full = 1
                resource.delay[t] = need
            need -= min(need, resource.supply[t])
            t += 1
        if need > 0:
            return False
        if pushed < 0:
            return True
        copy = resource.copy[following]
        start, end = copy.start, copy.end
        need = pushed + copy.need
        following = copy.after


@routine
def has_enough(resource: CopyResource, start: int, end: int, need: int) -> bool:
    """Returns whether one more copy would leave all complete in time (XLA: `HasEnoughResource`)."""
    changes = resource.now.changes
    fits = consume(resource, start, end, need)
    take_back(resource, changes)
    return fits


@routine
def _count(resource: CopyResource, first: int, last: int, change: int) -> None:
    """Counts a copy that is in flight over `first..last`, or with a `change` of -1 no longer."""
    at = first + 2
    while at < len(resource.begun):
        resource.begun[at] += change
        at += at & -at
    at = last + 2
    while at < len(resource.ended):
        resource.ended[at] += change
        at += at & -at


@routine
def _open_window(resource: CopyResource, first: int, last: int) -> None:
    """Counts a copy as in flight over `first..last`."""
    now, number = resource.now, resource.now.spare
    if number >= 0:
        now.spare = resource.window[number].next
    elif now.windows < len(resource.window):
        number = now.windows
        now.windows += 1
    else:
        now.is_full = 1
        return
    window = resource.window[number]
    window.last, window.next = last, resource.first_window[first + 1]
    resource.first_window[first + 1] = number
    _count(resource, first, last, 1)


@routine
def _close_window(resource: CopyResource, first: int, last: int) -> None:
    """No longer counts one of the copies that are in flight over `first..last`, if there are any."""
    before, number = -1, resource.first_window[first + 1]
    while number >= 0 and resource.window[number].last != last:
        before, number = number, resource.window[number].next
    if number < 0:
        return
    window = resource.window[number]
    if before < 0:
        resource.first_window[first + 1] = window.next
    else:
        resource.window[before].next = window.next
    window.next, resource.now.spare = resource.now.spare, number
    _count(resource, first, last, -1)


@routine
def outstanding(resource: CopyResource, first: int, last: int) -> int:
    """Returns how many copies are in flight at some time of `first..last`."""
    at, total = min(last + 2, len(resource.begun) - 1), 0
    while at > 0:
        total += resource.begun[at]
        at -= at & -at
    at = min(first + 1, len(resource.ended) - 1)
    while at > 0:
        total -= resource.ended[at]
        at -= at & -at
    return total


@routine
def add(resource: CopyResource, start: int, end: int, need: int, counted_from: int) -> None:
    """Adds a copy that `has_enough` accepts (XLA: `AddCopy`); it is in flight from `counted_from` through `end`."""
    consume(resource, start, end, need)
    now, number = resource.now, resource.now.free
    if number >= 0:
        now.free = resource.copy[number].after
    elif now.rows < len(resource.copy):
        number = now.rows
        now.rows += 1
    else:
        now.is_full = 1
        return
    before = _last(resource, start)
    after = _following(resource, before)
    copy = resource.copy[number]
    copy.start, copy.end, copy.need, copy.before, copy.after = start, end, need, before, after
    _link(resource, before, number)
    if after >= 0:
        resource.copy[after].before = number
    resource.newest[start + 1] = number
    resource.begin[(start + 1) // _BLOCK] += 1
    now.copies += 1
    _open_window(resource, counted_from, end)


@routine
def remove(resource: CopyResource, start: int, end: int) -> None:
    """Removes the copy added last of those that start at `start` (XLA: `RemoveCopy`); `take_back` restores delays.

    Any copy that counts as in flight from `start + 1` through `end` ceases to. A slice counts from `start` on, so one
    that is removed mostly goes on to count: libtpu 0.0.51 does so.
    """
    now, number = resource.now, _last(resource, start)
    copy = resource.copy[number]
    before, at = copy.before, copy.start + 1
    _link(resource, before, copy.after)
    if copy.after >= 0:
        resource.copy[copy.after].before = before
    is_alone = before < 0 or resource.copy[before].start + 1 < at
    resource.newest[at] = -1 if is_alone else before
    resource.begin[at // _BLOCK] -= 1
    copy.after, now.free = now.free, number
    now.copies -= 1
    _close_window(resource, start + 1, end)


@routine
def _link(resource: CopyResource, before: int, copy: int) -> None:
    """Makes a copy the one after another, or the first after -1."""
    if before < 0:
        resource.now.first = copy
    else:
        resource.copy[before].after = copy
