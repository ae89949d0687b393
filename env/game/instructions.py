"""Time passes: an instruction becomes final once all its accesses are decided.

Then its idle HBM time is known. Write-backs drain first; prefetches book the remainder later.
"""

from ..compiled.kernel import routine
from .clock import idle_seconds
from .copies import book, drain, finish_write_back, is_due, pop_write_back, queue_write_back, wait, wait_once
from .offsets import overlap
from .records import FAST_AND_OUT, NEVER
from .residencies import begin_residency, end_residency, record_residency, reserve_return, slot_of
from .state import State
from .tables import Tables
from .windows import find_window


@routine
def catch_up(tables: Tables, state: State) -> bool:
    """Finishes the instructions before the access to decide next. Returns False when the game is over."""
    access = state.now.access
    over = access == len(tables.access)
    until = tables.limits.instructions if over else tables.access[access].instruction
    while state.now.final < until:
        _finish_instruction(tables, state, state.now.final)
        state.now.final += 1
    return not over


@routine
def _finish_instruction(tables: Tables, state: State, t: int) -> None:
    """Finishes instruction `t`, whose accesses are all decided: write-backs drain, and dead buffers leave."""
    idle = idle_seconds(tables, t, state.step[t].fast_bytes, state.step[t].key, state.step[t].saving_s)
    if tables.instruction[t].writes_out:
        _write_out(tables, state, t)
    state.step[t].idle_s = drain(tables, state, t, t + 1, idle)
    pending = state.now.queue_tail - state.now.queue_head
    most = 0 if tables.instruction[t + 1].drains else tables.limits.write_backs
    while pending > most or (pending > 0 and is_due(state, t + 1)):
        wait_once(tables, state, t + 1, state.queue[state.now.queue_head].seconds)
        pop_write_back(tables, state, t + 1)
        pending -= 1
    if tables.instruction[t].ends_loop:
        _hold_to_the_end(tables, state, t)
    if state.now.owed > 0:
        # What a loop that ends here holds may lie where an enclosing loop needs its own next.
        _bring_back(tables, state, t, True)
        _bring_back(tables, state, t, False)
    cross = state.now.cross
    if cross >= 0 and t + 1 == tables.limits.instructions:
        if state.buffer[cross].resident:
            end_residency(state, cross, t)
        else:
            _refetch(tables, state, cross)
    elif cross >= 0 and t + 2 == tables.limits.instructions and not state.buffer[cross].resident:
        for slot in range(state.now.holders):  # the last chance to free its offset
            if overlap(tables, state, cross, state.holders[slot].buffer):
                finish_write_back(tables, state, state.holders[slot].buffer, t + 1)
    if tables.instruction[t].borders:
        _end_stays(tables, state, t)
    # Buffers without a further use leave: their offsets are free from the next instruction on.
    if state.now.ending == 0:
        return
    state.now.ending = 0
    slot = 0
    while slot < state.now.holders:
        owner = state.holders[slot].buffer
        if not state.holders[slot].last or state.buffer[owner].write_back >= 0 or owner == cross:
            slot += 1
        elif max(state.buffer[owner].release, tables.access[state.buffer[owner].touched].until) > t:
            state.now.ending = 1  # held over a loop
            slot += 1
        else:
            end_residency(state, owner, state.buffer[owner].release)


@routine
def _end_stays(tables: Tables, state: State, t: int) -> None:
    """Ends the stays of buffers that a loop does not hold and that begins or ends after instruction `t`."""
    slot = 0
    while slot < state.now.holders:
        owner = state.holders[slot].buffer
        if tables.access[state.buffer[owner].touched].ends == t:
            end_residency(state, owner, min(t, state.buffer[owner].release))
        else:
            slot += 1


@routine
def _write_out(tables: Tables, state: State, t: int) -> None:
    """Writes back the buffers that the loop ending with instruction `t` carried, where their first move said so."""
    for slot in range(state.now.holders):
        owner = state.holders[slot].buffer
        last = state.buffer[owner].touched
        if last < 0 or tables.access[last].carried == 0 or tables.access[last].until != t:
            continue
        first = tables.access[last].tied_to
        if state.access_fast[first if first >= 0 else last] == FAST_AND_OUT:
            queue_write_back(tables, state, owner, t, NEVER)
            state.buffer[owner].release = NEVER


@routine
def _bring_back(tables: Tables, state: State, t: int, with_body: bool) -> None:
    """Fetches again what a loop holds and needs right after instruction `t`, where its place was taken.

    `with_body`: what is due when the loop's body ends with `t`; else what is due at the next instruction.
    """
    row = 0
    while row < state.now.owed:
        owner = state.owed[row]
        last = state.buffer[owner].touched
        until, returning = tables.access[last].until, tables.returning[last]
        if returning.back != t + 1 or (returning.back > until) != with_body:
            row += 1
            continue
        state.now.owed -= 1
        for following in range(row, state.now.owed):
            state.owed[following] = state.owed[following + 1]
        reserve_return(tables, state, owner, -1)
        slot = 0
        while slot < state.now.holders:  # dead, but perhaps not written back
            other = state.holders[slot].buffer
            if overlap(tables, state, owner, other):
                finish_write_back(tables, state, other, t + 1)
                end_residency(state, other, state.buffer[other].release)
            else:
                slot += 1
        earliest = max(returning.back_from, state.buffer[owner].gone, t + 1 - tables.limits.window)
        for i in range(earliest + 1, t + 1):
            ended = state.step[i].ended
            while ended >= 0:
                low, mine = state.residency[ended].offset, state.buffer[owner].offset
                other = state.residency[ended].buffer
                if low < mine + tables.buffer[owner].aligned and mine < low + tables.buffer[other].aligned:
                    earliest = i
                ended = state.residency[ended].next
        need = tables.buffer[owner].size / tables.rates.hbm
        _, wide, near_start, _ = find_window(tables, state, need, t + 1, earliest)
        start = min(wide if wide > -2 else near_start, returning.back_by)
        left = book(tables, state, owner, start, t + 1)
        state.copy[state.now.copies - 1].again = 1
        if with_body:
            wait(tables, state, t, left)
        else:
            wait_once(tables, state, t + 1, left)
        begin_residency(tables, state, owner, state.buffer[owner].offset, start + 1)
        state.buffer[owner].release = until
        if tables.access[last].next < 0:
            state.holders[slot_of(state, owner)].last = 1
            state.now.ending = 1


@routine
def _hold_to_the_end(tables: Tables, state: State, t: int) -> None:
    """Keeps what was held over the loop that ends with instruction `t` up to there."""
    for slot in range(state.now.holders):
        owner = state.holders[slot].buffer
        last = state.buffer[owner].touched
        if state.buffer[owner].returns and tables.access[last].until == t:
            state.buffer[owner].release = t
            state.buffer[owner].returns = 0


@routine
def _refetch(tables: Tables, state: State, owner: int) -> None:
    """Fetches `owner` again at the end of the program, for the next execution: another buffer has taken its offset."""
    due = tables.limits.instructions
    earliest = max(tables.limits.refetch, due - tables.limits.window)
    for row in range(state.now.residencies):
        other = state.residency[row].buffer
        low = state.residency[row].offset
        mine = state.buffer[owner].offset
        if low < mine + tables.buffer[owner].aligned and mine < low + tables.buffer[other].aligned:
            earliest = max(earliest, state.residency[row].end)
    need = tables.buffer[owner].size / tables.rates.hbm
    _, wide, near_start, _ = find_window(tables, state, need, due, earliest)
    start = wide if wide > -2 else near_start
    wait(tables, state, due, book(tables, state, owner, start, due))
    state.buffer[owner].start = start + 1
    record_residency(state, owner, due - 1)
