"""Offsets in fast memory: best fit among the residents, and the cost of evicting some of them."""

import numpy as np
from numba import njit

from ..compiled.sorting import ascending, first_above, first_at_least
from .columns import (
    A_HINT,
    A_INSTRUCTION,
    A_NEXT,
    A_UNTIL,
    AF_BENEFIT,
    B_ALIGNED,
    B_LAST,
    B_TRIVIAL,
    C_CROSS,
    C_HOLDERS,
    C_QUEUE_HEAD,
    C_UNTOUCHED,
    COPY_START,
    D_ENDED,
    IF_CLOCK,
    L_FAST,
    L_INSTRUCTIONS,
    L_REFETCH,
    L_RESERVED,
    R_MEAN,
    RESIDENCY_BUFFER,
    RESIDENCY_NEXT,
    RESIDENCY_OFFSET,
    S_OFFSET,
    S_RELEASE,
    S_TOUCH,
    S_WRITE_BACK,
)
from .state import State
from .tables import Tables


@njit(cache=True, forceinline=True)
def victim_cost(tables: Tables, state: State, owner: int, now: int, after: int) -> float:
    """Returns the cost of evicting resident `owner`: the benefit of its next use per second until then."""
    # `after` is the access to decide; the next access of `owner` follows its last decided one.
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


@njit(cache=True, forceinline=True)
def seconds_until_out(tables: Tables, state: State, owner: int, now: int) -> float:
    """Returns the seconds that instruction `now` would wait for the pending write-back of `owner` and those before it.

    Infinity if none is pending, if it is issued only now, or if the instruction uses the buffer.
    """
    row = state.buffer[owner, S_WRITE_BACK]
    last = state.buffer[owner, S_TOUCH]
    if row < 0 or state.copy[row, COPY_START] >= now or tables.access[last, A_INSTRUCTION] >= now:
        return np.inf
    seconds = 0.0
    slot = state.counters[C_QUEUE_HEAD]
    while state.queue_copy[slot] != row:
        seconds += state.queue_s[slot]
        slot += 1
    return seconds + state.queue_s[slot]


@njit(cache=True, forceinline=True)
def overwritten(
    tables: Tables, state: State, owner: int, offset: int | np.int64, first: int, now: int, access: int
) -> tuple[float, float]:
    """Returns the cost of placing `owner` at `offset` over instructions `first..now`.

    Residencies that ended within the window are not looked at.

    Returns:
      The benefit lost by the residents that it evicts, in weighted seconds per second; and the seconds that instruction
      `now` waits for their write-backs, infinity if one of them is protected.
    """
    end = offset + tables.buffer[owner, B_ALIGNED]
    lost, wait = 0.0, 0.0
    for slot in range(state.counters[C_HOLDERS]):
        other = state.holders[slot]
        low = state.buffer[other, S_OFFSET]
        if low >= end:
            break
        if other == owner or low + tables.buffer[other, B_ALIGNED] <= offset:
            continue
        if state.buffer[other, S_RELEASE] >= first:
            wait = max(wait, seconds_until_out(tables, state, other, now) if first == now else np.inf)
        else:
            lost += victim_cost(tables, state, other, now, access)
    return lost, wait


@njit(cache=True, forceinline=True)
def lives_to_end(tables: Tables, owner: int) -> bool:
    """Returns whether `owner` lives long enough to obstruct a copy that is due when the program ends."""
    last = tables.limits[L_INSTRUCTIONS] - 1
    return bool(tables.limits[L_REFETCH] >= last or tables.access[tables.buffer[owner, B_LAST], A_UNTIL] >= last)


@njit(cache=True, forceinline=True)
def overlap(tables: Tables, state: State, owner: int, other: int) -> bool:
    """Returns whether two buffers, which are or were in fast memory, overlap there."""
    low, begins = state.buffer[owner, S_OFFSET], state.buffer[other, S_OFFSET]
    return bool(begins < low + tables.buffer[owner, B_ALIGNED] and low < begins + tables.buffer[other, B_ALIGNED])


@njit(cache=True, forceinline=True)
def free_after(tables: Tables, state: State, owner: int, offset: int | np.int64, since: int, now: int) -> int:
    """Returns the first instruction from `since` on after which `offset` is free for `owner` until `now`, residents
    that may be evicted counted as free; `now` or later if it never is."""
    end = offset + tables.buffer[owner, B_ALIGNED]
    if offset < tables.limits[L_RESERVED] or end > tables.limits[L_FAST]:
        return now
    start = since
    for t in range(since + 1, now + 1):
        ended = state.step[t, D_ENDED]
        while ended >= 0:
            low = state.residency[ended, RESIDENCY_OFFSET]
            if low < end and offset < low + tables.buffer[state.residency[ended, RESIDENCY_BUFFER], B_ALIGNED]:
                start = t
            ended = state.residency[ended, RESIDENCY_NEXT]
    for slot in range(state.counters[C_HOLDERS]):
        other = state.holders[slot]
        low = state.buffer[other, S_OFFSET]
        if other != owner and low < end and offset < low + tables.buffer[other, B_ALIGNED]:
            start = max(start, state.buffer[other, S_RELEASE])
    cross = state.counters[C_CROSS]
    if cross >= 0 and cross != owner and lives_to_end(tables, owner):
        low = state.buffer[cross, S_OFFSET]
        if low < end and offset < low + tables.buffer[cross, B_ALIGNED]:
            return now
    return min(start, now)


@njit(cache=True, forceinline=True)
def find_untouched(tables: Tables, state: State, owner: int, access: int, named: int) -> np.int64:
    """Returns the offset of the tightest gap for `owner` among those that nothing has used since the program began, or
    -1. The hinted offset comes first, if it lies in such a gap."""
    size = tables.buffer[owner, B_ALIGNED]
    hint = tables.access[access, A_HINT]
    best, best_gap = np.int64(-1), np.int64(2**62)
    for row in range(state.counters[C_UNTOUCHED]):
        low, high = state.untouched[row, 0], state.untouched[row, 1]
        if named >= 0:
            if low <= named and named + size <= high:
                return np.int64(named)
        elif low <= hint and hint + size <= high:
            return np.int64(hint)
        elif size <= high - low < best_gap:
            best, best_gap = low, high - low
    return best


@njit(cache=True, forceinline=True)
def mark_touched(tables: Tables, state: State, owner: int) -> None:
    """Removes the bytes of resident `owner` from the gaps that nothing has used since the program began."""
    low = state.buffer[owner, S_OFFSET]
    high = low + tables.buffer[owner, B_ALIGNED]
    row = 0
    while row < state.counters[C_UNTOUCHED]:
        begin, end = state.untouched[row, 0], state.untouched[row, 1]
        if end <= low or high <= begin:
            row += 1
            continue
        below, above = low - begin, end - high
        if below > 0 and above > 0 and state.counters[C_UNTOUCHED] == len(state.untouched):
            below, above = (below, 0) if below >= above else (0, above)  # no row for both: keep the larger
        if below > 0 and above > 0:
            for other in range(state.counters[C_UNTOUCHED], row + 1, -1):
                state.untouched[other, 0] = state.untouched[other - 1, 0]
                state.untouched[other, 1] = state.untouched[other - 1, 1]
            state.counters[C_UNTOUCHED] += 1
            state.untouched[row, 1] = low
            state.untouched[row + 1, 0] = high
            state.untouched[row + 1, 1] = end
            row += 2
        elif below > 0:
            state.untouched[row, 1] = low
            row += 1
        elif above > 0:
            state.untouched[row, 0] = high
            row += 1
        else:
            state.counters[C_UNTOUCHED] -= 1
            for other in range(row, state.counters[C_UNTOUCHED]):
                state.untouched[other, 0] = state.untouched[other + 1, 0]
                state.untouched[other, 1] = state.untouched[other + 1, 1]


@njit(cache=True)
def find_offset(
    tables: Tables,
    state: State,
    owner: int,
    first: int,
    now: int,
    access: int,
    may_evict: bool,
    may_wait: bool,
    named: int,
) -> tuple[np.int64, float]:
    """Searches an offset for `owner` from instruction `first` on, which is before or at `now`.

    A resident holds its offset now and, softly, until its last use, so an offset that is free over `first..now` stays
    free. The tightest gap wins, then the lowest offset; trivial buffers go to the top of the highest gap, where they do
    not obstruct large ones.

    Args:
      tables, state: the game.
      owner: the buffer.
      first, now: the first instruction that finds it there, and the current one.
      access: the access to decide.
      may_evict: where no gap is wide enough, take the offset that evicts the least benefit, of residents that nothing
        needs from `first` on.
      may_wait: when `first == now`, evict also residents that are protected only until they are written back.
      named: this offset or none, if it is not negative. A hinted offset is taken if it needs no wait.

    Returns:
      The offset, or -1, and the benefit lost by eviction in weighted seconds per second.
    """
    size = tables.buffer[owner, B_ALIGNED]
    fast_bytes, base = tables.limits[L_FAST], tables.limits[L_RESERVED]
    low, high, holders = _residents(tables, state, owner)
    gone_low, gone_high, gone = _gone(tables, state, owner, first, now)

    hint = tables.access[access, A_HINT]
    wanted = named if named >= 0 else hint
    if wanted >= 0:
        fits = base <= wanted and wanted + size <= fast_bytes
        for k in range(gone):
            fits = fits and (gone_low[k] >= wanted + size or gone_high[k] <= wanted)
        if fits:
            lost_there, wait = overwritten(tables, state, owner, wanted, first, now, access)
            fits = (may_evict or lost_there == 0.0) and (wait == 0.0 or (may_wait and named >= 0 and wait < np.inf))
            if fits:
                return np.int64(wanted), lost_there
        if named >= 0:
            return np.int64(-1), 0.0

    from_top = tables.buffer[owner, B_TRIVIAL] == 1
    best, best_gap = np.int64(-1), np.int64(2**62)
    edge, i, j = base, 0, 0
    while True:
        # The next obstacle: a resident or one that left within the window, both sorted by offset.
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

    # Evict: the cheapest position is flush against the bottom, or against an obstacle's upper or lower end.
    lost = np.zeros(holders + 1)
    hard = np.zeros(holders + 1, np.int64)
    k = 0
    for slot in range(state.counters[C_HOLDERS]):
        other = state.holders[slot]
        if other != owner:
            held = state.buffer[other, S_RELEASE] >= first
            cost = 0.0
            if held and may_wait:
                cost = seconds_until_out(tables, state, other, now) / tables.rates[R_MEAN]
                held = cost == np.inf
            elif not held:
                cost = victim_cost(tables, state, other, now, access)
            hard[k + 1] = hard[k] + (1 if held else 0)
            lost[k + 1] = lost[k] + (0.0 if held else cost)
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
    for k in range(2 * gone):  # flush against a residency that ended within the window
        position = gone_high[k] if k < gone else gone_low[k - gone] - size
        if position < base or position + size > fast_bytes:
            continue
        begin = first_above(high, position)
        end = first_at_least(low, position + size)
        if hard[end] > hard[begin] or lost[end] - lost[begin] >= best_cost:
            continue
        over = first_above(gone_high, position)
        if over == gone or gone_low[over] >= position + size:
            best, best_cost = position, lost[end] - lost[begin]
    return best, best_cost if best >= 0 else 0.0


@njit(cache=True, forceinline=True)
def _residents(tables: Tables, state: State, owner: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Returns lower and upper ends of all residents but `owner`, and their number; `holders` is sorted by offset."""
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


@njit(cache=True, forceinline=True)
def _gone(tables: Tables, state: State, owner: int, first: int, now: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Returns the bytes of residencies that ended within `first..now`: disjoint lower and upper ends by offset, and
    their number.

    The bytes of the cross-program prefetch are among them if `owner` would obstruct it at the end of the program.
    """
    cross = state.counters[C_CROSS]
    kept = cross >= 0 and cross != owner and lives_to_end(tables, owner)
    count = 1 if kept else 0
    for t in range(first, now + 1):
        ended = state.step[t, D_ENDED]
        while ended >= 0:
            count += 1
            ended = state.residency[ended, RESIDENCY_NEXT]
    low, high = np.empty(count, np.int64), np.empty(count, np.int64)
    n = 0
    if kept:
        low[0] = state.buffer[cross, S_OFFSET]
        high[0] = low[0] + tables.buffer[cross, B_ALIGNED]
        n = 1
    for t in range(first, now + 1):
        ended = state.step[t, D_ENDED]
        while ended >= 0:
            low[n] = state.residency[ended, RESIDENCY_OFFSET]
            high[n] = low[n] + tables.buffer[state.residency[ended, RESIDENCY_BUFFER], B_ALIGNED]
            n += 1
            ended = state.residency[ended, RESIDENCY_NEXT]
    order = ascending(low)
    merged = 0
    begins, ends = np.empty(count, np.int64), np.empty(count, np.int64)
    for k in order:
        if merged > 0 and low[k] <= ends[merged - 1]:
            ends[merged - 1] = max(ends[merged - 1], high[k])
        else:
            begins[merged], ends[merged] = low[k], high[k]
            merged += 1
    return begins[:merged], ends[:merged], merged
