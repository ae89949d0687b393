"""Offsets in fast memory: best fit among the residents, and the cost of evicting some of them."""

import numpy as np

from ..compiled.kernel import routine
from ..compiled.spans import add_span, first_above, first_at_least
from .records import NEVER
from .state import State
from .tables import Tables

# Stands for the cost of a resident that is still to be priced.
_NOT_PRICED = -1.0


@routine
def victim_cost(tables: Tables, state: State, owner: int, now: int, after: int) -> float:
    """Returns the cost of evicting resident `owner`: the benefit of its next use per second until then."""
    # `after` is the access to decide; the next access of `owner` follows its last decided one.
    following = -1
    last = state.buffer[owner].touched
    if state.buffer[owner].returns:  # it costs HBM time in every pass
        until = tables.returning[last].back_by
        clock = tables.instruction[until].clock_s - tables.instruction[now].clock_s
        need = tables.buffer[owner].size / tables.rates.hbm * tables.instruction[until].weight
        return need / max(clock, 0.1 * tables.rates.mean_s)
    if last >= 0:
        following = tables.access[last].next
        while following >= 0 and following < after:
            following = tables.access[following].next
    if following < 0 or tables.access[last].ends != NEVER:
        return 0.0
    clock = tables.instruction[tables.access[following].instruction].clock_s - tables.instruction[now].clock_s
    return (tables.access[following].benefit + 1e-12) / max(clock, 0.1 * tables.rates.mean_s)


@routine
def held_until(tables: Tables, state: State, access: int) -> int:
    """Returns the last instruction for which a fast access holds its buffer.

    That is not the end of a collective which reads the buffer from HBM.
    """
    beside = tables.access[access].beside
    if beside >= 0 and not state.access_fast[beside]:
        return int(tables.access[access].own)
    return int(tables.access[access].until)


@routine
def _lives_until(tables: Tables, owner: int) -> int:
    """Returns the last instruction at which `owner` may be in fast memory."""
    return int(tables.access[tables.buffer[owner].last].until)


@routine
def _lives_too_long(tables: Tables, state: State, owner: int, other: int) -> bool:
    """Returns whether `owner` lives longer than the place of `other`, which a loop holds, may be taken."""
    return bool(_lives_until(tables, owner) > tables.returning[state.buffer[other].touched].back_by)


@routine
def seconds_until_out(tables: Tables, state: State, owner: int, now: int) -> float:
    """Returns the seconds that instruction `now` would wait for the pending write-back of `owner` and those before it.

    Infinity if none is pending, if it is issued only now, or if the instruction or a running collective uses it.
    """
    row = state.buffer[owner].write_back
    last = state.buffer[owner].touched
    if row >= 0 and tables.access[last].until > tables.access[last].alone and held_until(tables, state, last) >= now:
        return np.inf
    if row < 0 or state.copy[row].start >= now or tables.access[last].instruction >= now:
        return np.inf
    seconds = 0.0
    slot = state.now.queue_head
    while state.queue[slot].copy != row:
        seconds += state.queue[slot].seconds
        slot += 1
    return seconds + state.queue[slot].seconds


@routine
def overwritten(
    tables: Tables, state: State, owner: int, offset: int | np.int64, first: int, now: int, access: int
) -> tuple[float, float]:
    """Returns the cost of placing `owner` at `offset` over instructions `first..now`.

    Residencies that ended within the window are not looked at.

    Returns:
      The benefit lost by the residents that it evicts, in weighted seconds per second; and the seconds that instruction
      `now` waits for their write-backs, infinity if one of them is protected.
    """
    end = offset + tables.buffer[owner].aligned
    lost, wait = 0.0, 0.0
    returns = state.now.owed
    slot = first_above(state.holders, state.now.holders, offset)
    while slot < state.now.holders and state.holders[slot].low < end:
        other = state.holders[slot].buffer
        slot += 1
        if other == owner:
            continue
        if state.buffer[other].release >= first:
            wait = max(wait, seconds_until_out(tables, state, other, now) if first == now else np.inf)
        elif state.buffer[other].returns:
            returns += 1
            if returns > tables.limits.prefetches or _lives_too_long(tables, state, owner, other):
                wait = np.inf
            lost += victim_cost(tables, state, other, now, access)
        else:
            lost += victim_cost(tables, state, other, now, access)
    return lost, wait


@routine
def lives_to_end(tables: Tables, owner: int) -> bool:
    """Returns whether `owner` lives long enough to obstruct a copy that is due when the program ends."""
    last = tables.limits.instructions - 1
    return bool(tables.limits.refetch >= last or tables.access[tables.buffer[owner].last].until >= last)


@routine
def overlap(tables: Tables, state: State, owner: int, other: int) -> bool:
    """Returns whether two buffers, which are or were in fast memory, overlap there."""
    low, begins = state.buffer[owner].offset, state.buffer[other].offset
    return bool(begins < low + tables.buffer[owner].aligned and low < begins + tables.buffer[other].aligned)


@routine
def free_after(tables: Tables, state: State, owner: int, offset: int | np.int64, since: int, now: int) -> int:
    """Returns the first instruction from `since` on after which `offset` is free for `owner` until `now`, residents
    that may be evicted counted as free; `now` or later if it never is."""
    end = offset + tables.buffer[owner].aligned
    if offset < tables.limits.reserved or end > tables.limits.fast_bytes:
        return now
    start = since
    for t in range(since + 1, now + 1):
        ended = state.step[t].ended
        while ended >= 0:
            low = state.residency[ended].offset
            if low < end and offset < low + tables.buffer[state.residency[ended].buffer].aligned:
                start = t
            ended = state.residency[ended].next
    slot = first_above(state.holders, state.now.holders, offset)
    while slot < state.now.holders and state.holders[slot].low < end:
        other = state.holders[slot].buffer
        slot += 1
        if other != owner:
            start = max(start, state.buffer[other].release)
            if state.buffer[other].returns and _lives_too_long(tables, state, owner, other):
                return now
    for row in range(state.now.owed):
        other = state.owed[row]
        low = state.buffer[other].offset
        if low < end and offset < low + tables.buffer[other].aligned and _lives_too_long(tables, state, owner, other):
            return now
    cross = state.now.cross
    if cross >= 0 and cross != owner and lives_to_end(tables, owner):
        low = state.buffer[cross].offset
        if low < end and offset < low + tables.buffer[cross].aligned:
            return now
    return min(start, now)


@routine
def find_untouched(tables: Tables, state: State, owner: int, access: int, named: int) -> np.int64:
    """Returns the offset of the tightest gap for `owner` among those that nothing has used since the program began, or
    -1. The hinted offset comes first, if it lies in such a gap."""
    size = tables.buffer[owner].aligned
    hint = tables.access[access].hint
    best, best_gap = np.int64(-1), np.int64(2**62)
    for row in range(state.now.untouched):
        low, high = state.untouched[row].low, state.untouched[row].high
        if named >= 0:
            if low <= named and named + size <= high:
                return np.int64(named)
        elif low <= hint and hint + size <= high:
            return np.int64(hint)
        elif size <= high - low < best_gap:
            best, best_gap = low, high - low
    return best


@routine
def mark_touched(tables: Tables, state: State, owner: int) -> None:
    """Removes the bytes of resident `owner` from the gaps that nothing has used since the program began."""
    low = state.buffer[owner].offset
    high = low + tables.buffer[owner].aligned
    row = 0
    while row < state.now.untouched:
        begin, end = state.untouched[row].low, state.untouched[row].high
        if end <= low or high <= begin:
            row += 1
            continue
        below, above = low - begin, end - high
        if below > 0 and above > 0 and state.now.untouched == len(state.untouched):
            below, above = (below, 0) if below >= above else (0, above)  # no row for both: keep the larger
        if below > 0 and above > 0:
            for other in range(state.now.untouched, row + 1, -1):
                state.untouched[other].low = state.untouched[other - 1].low
                state.untouched[other].high = state.untouched[other - 1].high
            state.now.untouched += 1
            state.untouched[row].high = low
            state.untouched[row + 1].low = high
            state.untouched[row + 1].high = end
            row += 2
        elif below > 0:
            state.untouched[row].high = low
            row += 1
        elif above > 0:
            state.untouched[row].low = high
            row += 1
        else:
            state.now.untouched -= 1
            for other in range(row, state.now.untouched):
                state.untouched[other].low = state.untouched[other + 1].low
                state.untouched[other].high = state.untouched[other + 1].high


@routine
def find_offset(
    tables: Tables, state: State, access: int, first: int, may_evict: bool, may_wait: bool, named: int
) -> tuple[np.int64, float]:
    """Searches an offset for the buffer of an access from instruction `first` on, which is its own or before it.

    A resident holds its offset now and, softly, until its last use, so an offset that is free over `first..now` stays
    free. The tightest gap wins, then the lowest offset; trivial buffers go to the top of the highest gap, where they do
    not obstruct large ones.

    Args:
      tables, state: the game.
      access: the access to decide.
      first: the first instruction that finds the buffer there.
      may_evict: where no gap is wide enough, take the offset that evicts the least benefit, of residents that nothing
        needs from `first` on.
      may_wait: when `first` is the access's own instruction, evict also residents that are protected only until they
        are written back.
      named: this offset or none, if it is not negative. A hinted offset is taken if it needs no wait.

    Returns:
      The offset, or -1, and the benefit lost by eviction in weighted seconds per second.
    """
    owner, now = tables.access[access].buffer, tables.access[access].instruction
    size = tables.buffer[owner].aligned
    fast_bytes, base = tables.limits.fast_bytes, tables.limits.reserved
    holders, count, left = state.holders, state.now.holders, state.space.left
    gone = _left(tables, state, owner, first, now)

    hint = tables.access[access].hint
    wanted = named if named >= 0 else hint
    if wanted >= 0:
        fits = base <= wanted and wanted + size <= fast_bytes
        if fits:
            over = first_above(left, gone, wanted)
            fits = over == gone or left[over].low >= wanted + size
        if fits:
            lost_there, wait = overwritten(tables, state, owner, wanted, first, now, access)
            fits = (may_evict or lost_there == 0.0) and (wait == 0.0 or (may_wait and named >= 0 and wait < np.inf))
            if fits:
                return np.int64(wanted), lost_there
        if named >= 0:
            return np.int64(-1), 0.0

    from_top = tables.buffer[owner].trivial == 1
    best, best_gap = np.int64(-1), np.int64(2**62)
    edge, i, j = base, 0, 0
    next_left = left[0].low if gone > 0 else NEVER
    while True:
        # The next obstacle: a resident or one that left within the window, both sorted by offset.
        until = holders[i].low if i < count else fast_bytes
        if next_left < until:
            until, past = next_left, left[j].high
            j += 1
            next_left = left[j].low if j < gone else NEVER
        elif i < count:
            past = holders[i].high
            i += 1
        else:
            past = fast_bytes
        gap = until - edge
        if gap >= size:
            if from_top:
                best = until - size
            elif gap < best_gap:
                best, best_gap = edge, gap
                if gap == size:
                    break  # none is tighter
        edge = max(edge, past)
        if until == fast_bytes:
            break
    if best >= 0 or not may_evict:
        return best, 0.0
    return _find_victims(tables, state, access, first, may_wait, gone)


@routine
def _find_victims(
    tables: Tables, state: State, access: int, first: int, may_wait: bool, gone: int
) -> tuple[np.int64, float]:
    """Searches the offset that evicts the least benefit (`find_offset`); `gone` rows of `space.left` count.

    The cheapest position is flush against the bottom, or against an obstacle's upper or lower end.
    """
    owner, now = tables.access[access].buffer, tables.access[access].instruction
    size = tables.buffer[owner].aligned
    fast_bytes, base = tables.limits.fast_bytes, tables.limits.reserved
    holders, count = state.holders, state.now.holders
    left, lost, hard = state.space.left, state.space.lost, state.space.hard
    lost[0] = 0.0
    hard[0] = 0
    returns = state.now.owed
    low, roomy = base, False  # the end of the last resident that cannot be evicted, and whether two leave room
    for k in range(count):
        other = holders[k].buffer
        held = state.buffer[other].release >= first
        cost = _NOT_PRICED
        if not held and state.buffer[other].returns:
            returns += 1
            held = returns > tables.limits.prefetches or _lives_too_long(tables, state, owner, other)
        if held:
            cost = 0.0
            if may_wait:
                wait = seconds_until_out(tables, state, other, now) / tables.rates.mean_s
                held = wait == np.inf
                cost = 0.0 if held else wait
        if held:
            roomy = roomy or holders[k].low - low >= size
            low = holders[k].high
        hard[k + 1] = hard[k] + (1 if held else 0)
        lost[k + 1] = cost
    if not roomy and fast_bytes - low < size:
        return np.int64(-1), 0.0
    for k in range(count):
        cost = lost[k + 1]
        if cost == _NOT_PRICED:
            cost = victim_cost(tables, state, holders[k].buffer, now, access)
        lost[k + 1] = lost[k] + cost
    best, best_cost = np.int64(-1), np.inf
    begin, end, over = 0, 0, 0
    for k in range(-1, count):  # flush against the bottom, or against the upper end of resident `k`
        position = base if k < 0 else holders[k].high
        begin = k + 1
        while end < count and holders[end].low < position + size:
            end += 1
        while over < gone and left[over].high <= position:
            over += 1
        blocked = hard[end] > hard[begin] or (over < gone and left[over].low < position + size)
        if base <= position <= fast_bytes - size and not blocked and lost[end] - lost[begin] < best_cost:
            best, best_cost = position, lost[end] - lost[begin]
    begin, over = 0, 0
    for k in range(count):  # flush against the lower end of resident `k`
        position = holders[k].low - size
        while begin < count and holders[begin].high <= position:
            begin += 1
        while over < gone and left[over].high <= position:
            over += 1
        blocked = hard[k] > hard[begin] or (over < gone and left[over].low < holders[k].low)
        if position >= base and not blocked and lost[k] - lost[begin] < best_cost:
            best, best_cost = position, lost[k] - lost[begin]
    for k in range(2 * gone):  # flush against a residency that ended within the window
        position = left[k].high if k < gone else left[k - gone].low - size
        if position < base or position + size > fast_bytes:
            continue
        begin = first_above(holders, count, position)
        end = first_at_least(holders, count, position + size)
        if hard[end] > hard[begin] or lost[end] - lost[begin] >= best_cost:
            continue
        over = first_above(left, gone, position)
        if over == gone or left[over].low >= position + size:
            best, best_cost = position, lost[end] - lost[begin]
    return best, best_cost if best >= 0 else 0.0


@routine
def _left(tables: Tables, state: State, owner: int, first: int, now: int) -> int:
    """Fills `space.left` with the bytes of residencies that ended within `first..now`, disjoint and by offset, and
    returns their number.

    The bytes of the cross-program prefetch are among them if `owner` would obstruct it at the end of the program, and
    those of what a loop fetches again if it would obstruct that.
    """
    left = state.space.left
    count = 0
    cross = state.now.cross
    if cross >= 0 and cross != owner and lives_to_end(tables, owner):
        low = state.buffer[cross].offset
        count = add_span(left, count, low, low + tables.buffer[cross].aligned)
    for row in range(state.now.owed):
        other = state.owed[row]
        if _lives_too_long(tables, state, owner, other):
            low = state.buffer[other].offset
            count = add_span(left, count, low, low + tables.buffer[other].aligned)
    for t in range(first, now + 1):
        ended = state.step[t].ended
        while ended >= 0:
            residency = state.residency[ended]
            low = residency.offset
            count = add_span(left, count, low, low + tables.buffer[residency.buffer].aligned)
            ended = residency.next
    return count
