"""Residencies: a buffer takes an offset of fast memory, holds it, and gives it up or is evicted."""

import numpy as np

from ..compiled.kernel import routine
from ..compiled.spans import first_above
from ..program.program import OPERAND
from .offsets import mark_touched
from .records import NEVER
from .state import State
from .tables import Tables


@routine
def begin_residency(tables: Tables, state: State, owner: int, offset: int | np.int64, first: int) -> None:
    """Makes buffer `owner` resident at `offset` from instruction `first` on. `holders` stays sorted by offset."""
    state.buffer[owner].resident = 1
    state.buffer[owner].offset = offset
    state.buffer[owner].start = first
    state.buffer[owner].returns = 0
    slot = state.now.holders
    while slot > 0 and state.holders[slot - 1].low > offset:
        _move_holder(state, slot - 1, slot)
        slot -= 1
    holder = state.holders[slot]
    holder.buffer = owner
    holder.low = offset
    holder.high = offset + tables.buffer[owner].aligned
    holder.last = 0
    state.now.holders += 1
    if state.now.cross < 0:
        mark_touched(tables, state, owner)


@routine
def end_residency(state: State, owner: int, last: int) -> None:
    """Ends the residency of `owner` with instruction `last`, and removes it from the holders."""
    record_residency(state, owner, last)
    state.buffer[owner].resident = 0
    state.buffer[owner].gone = last
    slot = slot_of(state, owner)
    state.now.holders -= 1
    for following in range(slot, state.now.holders):
        _move_holder(state, following + 1, following)


@routine
def slot_of(state: State, owner: int) -> int:
    """Returns the row of resident `owner` among the holders."""
    return first_above(state.holders, state.now.holders, state.buffer[owner].offset)


@routine
def _move_holder(state: State, source: int, into: int) -> None:
    state.holders[into].buffer = state.holders[source].buffer
    state.holders[into].low = state.holders[source].low
    state.holders[into].high = state.holders[source].high
    state.holders[into].last = state.holders[source].last


@routine
def record_residency(state: State, owner: int, last: int) -> None:
    """Adds the residency of `owner` to the finished ones, and to the list of those that end with instruction `last`."""
    row = state.now.residencies
    state.now.residencies += 1
    state.residency[row].buffer = owner
    state.residency[row].start = state.buffer[owner].start
    state.residency[row].end = last
    state.residency[row].offset = state.buffer[owner].offset
    state.residency[row].next = state.step[last].ended
    state.step[last].ended = row


@routine
def evict(tables: Tables, state: State, owner: int, offset: int | np.int64) -> None:
    """Ends the residencies that buffer `owner` overwrites at `offset`."""
    low = offset
    high = low + tables.buffer[owner].aligned
    slot = first_above(state.holders, state.now.holders, low)
    while slot < state.now.holders and state.holders[slot].low < high:
        other = state.holders[slot].buffer
        owes = state.buffer[other].returns
        end_residency(state, other, state.buffer[other].release)
        state.now.evictions += 1
        if owes:
            state.owed[state.now.owed] = other
            state.now.owed += 1
            reserve_return(tables, state, other, 1)


@routine
def reserve_return(tables: Tables, state: State, owner: int, change: int) -> None:
    """Counts, or no longer counts, the prefetch that brings `owner` back before a loop's body ends as in flight during
    the last instruction. One that is due at an instruction can be issued right before it."""
    last = state.buffer[owner].touched
    until = tables.access[last].until
    if tables.returning[last].back > until:
        state.step[until].prefetches += change


@routine
def update_release(tables: Tables, state: State, owner: int) -> None:
    """Protects `owner` from eviction if it is a sole copy or a cross-program prefetch with a use ahead, or if its
    write-back is pending."""
    following = tables.access[state.now.access].next
    sole = state.buffer[owner].valid == NEVER and following >= 0 and tables.access[following].kind == OPERAND
    crosses = state.now.cross == owner and following >= 0
    if sole or crosses or state.buffer[owner].write_back >= 0:
        state.buffer[owner].release = NEVER
