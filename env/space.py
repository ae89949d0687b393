"""Where in fast memory a buffer fits: best fit among what is there, and what it would cost to overwrite."""

import numpy as np
from numba import njit

from .layout import (
    A_INSTRUCTION,
    A_NEXT,
    AF_BENEFIT,
    B_ALIGNED,
    B_TRIVIAL,
    C_HOLDERS,
    D_ENDED,
    IF_CLOCK,
    L_FAST,
    L_RESERVED,
    R_MEAN,
    RESIDENCY_BUFFER,
    RESIDENCY_NEXT,
    RESIDENCY_OFFSET,
    S_OFFSET,
    S_RELEASE,
    S_TOUCH,
    State,
    Tables,
)


@njit(cache=True)
def victim_cost(tables: Tables, state: State, owner: int, now: int, after: int) -> float:
    """Returns what overwriting resident `owner` loses: benefit of its next use per second until then."""
    # `after` is the access being decided; the next access of `owner` follows the last one that was decided.
    following = -1
    last = state.buffer[owner, S_TOUCH]
    if last >= 0:
        following = tables.access[last, A_NEXT]
        while following >= 0 and following < after:
            following = tables.access[following, A_NEXT]
    if following < 0:
        return 0.0
    clock = (
        tables.instruction_f[tables.access[following, A_INSTRUCTION], IF_CLOCK] - tables.instruction_f[now, IF_CLOCK]
    )
    return (tables.access_f[following, AF_BENEFIT] + 1e-12) / max(clock, 0.1 * tables.rates[R_MEAN])


@njit(cache=True)
def find_offset(
    tables: Tables, state: State, owner: int, first: int, now: int, access: int, may_evict: bool
) -> tuple[np.int64, float]:
    """Looks for room for `owner` while instructions `first..now` run and on.

    A resident holds its offset now and, softly, on to its last use; so what is free over the window and now is free for
    as long as it is wanted. Prefers the tightest gap, lowest offset first; trivial buffers go to the top of the highest
    gap instead, out of the way of large ones. With `may_evict`, where no gap is wide enough, takes the offset that
    overwrites the least: only residents that nothing needs from `first` on.

    Returns:
      The offset, or -1, and the cost of what it overwrites in weighted seconds per second.
    """
    size = tables.buffer[owner, B_ALIGNED]
    fast_bytes, base = tables.limits[L_FAST], tables.limits[L_RESERVED]
    low, high, holders = _residents(tables, state, owner)
    gone_low, gone_high, gone = _gone(tables, state, first, now)

    from_top = tables.buffer[owner, B_TRIVIAL] == 1
    best, best_gap = np.int64(-1), np.int64(2**62)
    edge, i, j = base, 0, 0
    while True:
        # The next obstacle, of residents and of those that left within the window, both in order of offset.
        if i < holders and (j >= gone or low[i] <= gone_low[j]):
            until, past = low[i], high[i]
            i += 1
        elif j < gone:
            until, past = gone_low[j], gone_high[j]
            j += 1
        else:
            until, past = fast_bytes, fast_bytes
        gap = until - edge
        if gap >= size:
            if from_top:
                best = until - size
            elif gap < best_gap:
                best, best_gap = edge, gap
        edge = max(edge, past)
        if until == fast_bytes:
            break
    if best >= 0 or not may_evict:
        return best, 0.0

    # Overwrite: the cheapest position is flush against the bottom or against an obstacle's upper or lower end.
    lost = np.zeros(holders + 1)
    hard = np.zeros(holders + 1, np.int64)
    k = 0
    for slot in range(state.counters[C_HOLDERS]):
        other = state.holders[slot]
        if other != owner:
            held = state.buffer[other, S_RELEASE] >= first
            hard[k + 1] = hard[k] + (1 if held else 0)
            lost[k + 1] = lost[k] + (0.0 if held else victim_cost(tables, state, other, now, access))
            k += 1
    best_cost = np.inf
    begin, end, over = 0, 0, 0
    for k in range(-1, holders):  # flush against the bottom, or against the upper end of resident `k`
        position = base if k < 0 else high[k]
        begin = k + 1
        while end < holders and low[end] < position + size:
            end += 1
        while over < gone and gone_high[over] <= position:
            over += 1
        blocked = hard[end] > hard[begin] or (over < gone and gone_low[over] < position + size)
        if base <= position <= fast_bytes - size and not blocked and lost[end] - lost[begin] < best_cost:
            best, best_cost = position, lost[end] - lost[begin]
    begin, over = 0, 0
    for k in range(holders):  # flush against the lower end of resident `k`
        position = low[k] - size
        while begin < holders and high[begin] <= position:
            begin += 1
        while over < gone and gone_high[over] <= position:
            over += 1
        blocked = hard[k] > hard[begin] or (over < gone and gone_low[over] < low[k])
        if position >= base and not blocked and lost[k] - lost[begin] < best_cost:
            best, best_cost = position, lost[k] - lost[begin]
    for k in range(2 * gone):  # flush against what left within the window
        position = gone_high[k] if k < gone else gone_low[k - gone] - size
        if position < base or position + size > fast_bytes:
            continue
        begin = np.searchsorted(high, position, side="right")
        end = np.searchsorted(low, position + size, side="left")
        if hard[end] > hard[begin] or lost[end] - lost[begin] >= best_cost:
            continue
        over = np.searchsorted(gone_high, position, side="right")
        if over == gone or gone_low[over] >= position + size:
            best, best_cost = position, lost[end] - lost[begin]
    return best, best_cost if best >= 0 else 0.0


@njit(cache=True)
def _residents(tables: Tables, state: State, owner: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Returns lower and upper ends of all residents but `owner`, by offset: `holders` is kept in that order."""
    count = state.counters[C_HOLDERS]
    low, high = np.empty(count, np.int64), np.empty(count, np.int64)
    n = 0
    for slot in range(count):
        other = state.holders[slot]
        if other != owner:
            low[n] = state.buffer[other, S_OFFSET]
            high[n] = low[n] + tables.buffer[other, B_ALIGNED]
            n += 1
    return low[:n], high[:n], n


@njit(cache=True)
def _gone(tables: Tables, state: State, first: int, now: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Returns what residencies that ended within `first..now` cover: disjoint lower and upper ends, by offset."""
    count = 0
    for t in range(first, now + 1):
        ended = state.step[t, D_ENDED]
        while ended >= 0:
            count += 1
            ended = state.residency[ended, RESIDENCY_NEXT]
    low, high = np.empty(count, np.int64), np.empty(count, np.int64)
    n = 0
    for t in range(first, now + 1):
        ended = state.step[t, D_ENDED]
        while ended >= 0:
            low[n] = state.residency[ended, RESIDENCY_OFFSET]
            high[n] = low[n] + tables.buffer[state.residency[ended, RESIDENCY_BUFFER], B_ALIGNED]
            n += 1
            ended = state.residency[ended, RESIDENCY_NEXT]
    order = np.argsort(low)
    merged = 0
    begins, ends = np.empty(count, np.int64), np.empty(count, np.int64)
    for k in order:
        if merged > 0 and low[k] <= ends[merged - 1]:
            ends[merged - 1] = max(ends[merged - 1], high[k])
        else:
            begins[merged], ends[merged] = low[k], high[k]
            merged += 1
    return begins[:merged], ends[:merged], merged
