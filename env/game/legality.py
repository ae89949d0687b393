"""Legal moves at an access, and the plan of the move that needs free memory: offset, prefetch window, wait.

Nothing here changes the state. `legal_moves` fills a record of options (`options.py`); `play.py` carries a move out.
"""

import numpy as np

from ..compiled.kernel import routine
from ..program.program import OPERAND
from .moves import COPY, DROP, NO_COPY
from .offsets import find_offset, find_untouched, free_after, overwritten, seconds_until_out
from .options import Options
from .records import READ_LATER
from .state import State
from .tables import Tables
from .windows import find_window, stall_seconds

# Windows that a prefetch tries when the one that hides it finds no free offset.
_WINDOW_TRIES = 4


@routine
def legal_moves(tables: Tables, state: State, options: Options, named: int, any_wait: bool) -> int:
    """Fills `options` for the access to decide next; returns how many moves are legal.

    Args:
      tables, state: the game.
      options: the record to fill.
      named: the offset at which the move is to place the buffer, or `options.ANY_OFFSET`.
      any_wait: a move is legal however long its instruction waits.
    """
    access = state.now.access
    owner = tables.access[access].buffer
    t = tables.access[access].instruction
    tied_to = tables.access[access].tied_to
    resident = state.buffer[owner].resident == 1
    legal = options.legal
    in_hbm = tables.access[access].in_hbm == 1
    legal[:] = 0
    options.offset = -1
    options.cross_offset = -1
    options.stall_s = 0.0
    options.victims = 0.0
    options.supply_s = 0.0
    if tables.access[access].kind == OPERAND:
        if tied_to >= 0:
            legal[NO_COPY if state.access_fast[tied_to] else DROP] = True
        else:
            legal[NO_COPY] = resident and not in_hbm
            legal[DROP] = state.buffer[owner].valid <= t
            if resident:
                if not legal[DROP] and (in_hbm or tables.buffer[owner].trivial == 0):
                    wait = seconds_until_out(tables, state, owner, t)
                    if wait < np.inf:
                        legal[DROP] = True
                        options.stall_s = wait
                legal[COPY] = tables.access[access].carried == READ_LATER and not in_hbm
                beside = tables.access[access].beside
                if beside >= 0 and state.access_fast[beside]:
                    legal[DROP] = False  # a running collective reads it there
            elif tables.buffer[owner].played and legal[DROP] and not in_hbm:
                gain = np.inf if any_wait else tables.rates.patience * tables.access[access].ahead
                legal[COPY] = _plan_prefetch(tables, state, options, named, gain, access)
                if tables.buffer[owner].cross and state.now.cross < 0 and state.buffer[owner].touched < 0:
                    options.cross_offset = find_untouched(tables, state, owner, access, named)
                    legal[NO_COPY] = options.cross_offset >= 0
    elif tied_to >= 0 and not state.access_fast[tied_to]:
        legal[DROP] = True  # written in place over an operand that was read from HBM, or carried in HBM
    else:
        legal[DROP] = tied_to < 0
        if tables.buffer[owner].played and not in_hbm:
            fits = resident
            if not fits:
                gain = np.inf if any_wait else tables.rates.patience * tables.access[access].ahead
                fits = _plan_result(tables, state, options, named, gain, access)
            following = tables.access[access].next
            again = following >= 0 and tables.access[following].instruction == t
            # The last result of an output must reach HBM, as must one that is read there whatever the plan; a result
            # that is overwritten within its instruction need not.
            must_reach = tables.buffer[owner].is_output and access == tables.buffer[owner].last_result
            must_reach = must_reach or tables.access[access].needed == 1
            wanted = must_reach or (following >= 0 and tables.access[following].kind == OPERAND)
            legal[NO_COPY] = fits and not must_reach
            legal[COPY] = fits and wanted and not again and tables.instruction[t].writes_back
            # What a collective has only begun to write is not copied.
            legal[COPY] = legal[COPY] and tables.access[access].until == t
            # A buffer that a loop carries is written back after the loop, if its first access says so or it must be.
            if tables.access[access].carried:
                legal[NO_COPY] = fits
                legal[COPY] = fits and tied_to < 0 and tables.access[access].carried == READ_LATER
    return legal[0] + legal[1] + legal[2]


@routine
def _plan_result(tables: Tables, state: State, options: Options, named: int, gain: float, access: int) -> bool:
    """Plans an offset for a result: free, or taken from residents that HBM holds too, or after a wait for write-backs.

    A buffer that a loop carries takes its offset from the loop's first instruction on, since the next iteration reads
    it there. Returns False if there is no offset, or only one whose wait costs more than `gain` weighted seconds.
    """
    owner, t = tables.access[access].buffer, tables.access[access].instruction
    may_evict = tables.buffer[owner].trivial == 0
    due = tables.access[access].due
    offset, victims = find_offset(tables, state, access, due, may_evict, False, named)
    if offset < 0 and may_evict and due == t and state.now.queue_head < state.now.queue_tail:
        offset, victims = find_offset(tables, state, access, t, True, True, named)
        if offset >= 0:
            victims, wait = overwritten(tables, state, owner, offset, t, t, access)
            if named < 0 and wait * tables.instruction[t].weight >= gain:
                return False
            options.stall_s = wait
    options.offset = offset
    options.victims = victims
    return bool(offset >= 0)


@routine
def _plan_prefetch(tables: Tables, state: State, options: Options, named: int, gain: float, access: int) -> bool:
    """Plans a prefetch for a read: over the latest window that hides it, with slack where memory is free; else
    over one whose wait costs less than `gain` weighted seconds.

    It is due at the read, or before a loop that only reads the buffer. A window that the tables hint at comes first.
    """
    owner = tables.access[access].buffer
    due = tables.access[access].due
    earliest = max(tables.access[access].earliest, state.buffer[owner].source, due - tables.limits.window)
    earliest = max(earliest, state.buffer[owner].gone)  # its own last residency is in the way
    if earliest > due - 1:
        return False
    if tables.access[access].since >= due or not _plan_since(tables, state, options, named, gain, access, earliest):
        return _plan_latest(tables, state, options, named, gain, access, earliest)
    start, offset = options.start, options.offset
    stall, victims = options.stall_s, options.victims
    supply = options.supply_s
    if stall <= 0.0 or start <= tables.access[access].since:
        return True
    # It starts later than hinted, and stalls: another offset may stall less.
    if _plan_latest(tables, state, options, named, gain, access, earliest) and options.stall_s < stall:
        return True
    options.supply_s = supply
    return _set_plan(options, start, offset, stall, victims)


@routine
def _plan_since(
    tables: Tables,
    state: State,
    options: Options,
    named: int,
    gain: float,
    access: int,
    earliest: int,
) -> bool:
    """Plans a prefetch at the named or hinted offset, from the hinted start on or as soon after it as the offset is
    free. Returns False if it never is, or if the wait costs more than `gain` weighted seconds."""
    owner, t = tables.access[access].buffer, tables.access[access].instruction
    due = tables.access[access].due
    offset = named if named >= 0 else tables.access[access].hint
    if offset < 0:
        return False
    start = free_after(tables, state, owner, offset, max(tables.access[access].since, earliest), t)
    if start >= due:
        return False
    need = tables.buffer[owner].size / tables.rates.hbm
    available = 0.0
    for i in range(start + 1, due):
        if state.step[i].prefetches >= tables.limits.prefetches:
            return False
        available += state.step[i].idle_s
    missing = max(0.0, need - available)
    stall = 0.0
    if missing > 0.0:
        stall = (stall_seconds(state, missing) if due == t else missing) * tables.access[access].once
        if stall * tables.instruction[t].weight >= gain:
            return False
    victims, _ = overwritten(tables, state, owner, offset, start + 1, t, access)
    if victims > 0.0 and tables.buffer[owner].trivial:
        return False
    options.supply_s = min(available, need)
    return _set_plan(options, start, offset, stall, victims)


@routine
def _plan_latest(
    tables: Tables,
    state: State,
    options: Options,
    named: int,
    gain: float,
    access: int,
    earliest: int,
) -> bool:
    """Plans a prefetch over the latest window that hides it, else over one whose wait costs less than `gain`."""
    owner, t = tables.access[access].buffer, tables.access[access].instruction
    due = tables.access[access].due
    trivial = tables.buffer[owner].trivial == 1
    need = tables.buffer[owner].size / tables.rates.hbm
    weight = tables.instruction[t].weight
    found, wide, near_start, near_supply = find_window(tables, state, need, due, earliest)
    options.supply_s = max(near_supply, need if found > -2 else 0.0)
    if found > -2:
        for first in (wide, found):
            offset, victims = find_offset(tables, state, access, first + 1, not trivial, False, named)
            if offset >= 0:
                return _set_plan(options, first, offset, 0.0, victims)
            if wide == found:
                break
    if trivial:
        return False
    # Shorter windows next to `due`: less idle time, more free memory. A start where HBM is busy gains nothing.
    while near_start < due - 1 and state.step[near_start + 1].idle_s <= 0.0:
        near_start += 1
    last = -2
    for attempt in range(_WINDOW_TRIES + 1):
        first = near_start + ((due - 1 - near_start) * attempt) // _WINDOW_TRIES
        if first == last:
            continue
        last = first
        available = 0.0
        for i in range(first + 1, due):
            available += state.step[i].idle_s
        missing = max(0.0, need - available)
        # Before a loop no write-back is pending; one wait there serves many executions of `t`.
        stall = stall_seconds(state, missing) if due == t else missing
        stall *= tables.access[access].once
        if stall * weight >= gain:
            break  # shorter windows stall longer
        offset, victims = find_offset(tables, state, access, first + 1, True, False, named)
        if offset >= 0:
            return _set_plan(options, first, offset, stall, victims)
    return False


@routine
def _set_plan(options: Options, start: int, offset: int | np.int64, stall: float, victims: float) -> bool:
    options.start = start
    options.offset = offset
    options.stall_s = stall
    options.victims = victims
    return True
