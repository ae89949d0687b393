"""Residencies: a buffer takes an offset of fast memory, holds it, and gives it up or is evicted."""

import numpy as np
from numba import njit

from ..program.program import OPERAND
from .columns import (
    A_KIND,
    A_NEXT,
    B_SIZE,
    C_ACCESS,
    C_CROSS,
    C_EVICTIONS,
    C_HOLDERS,
    C_RESIDENCIES,
    D_ENDED,
    NEVER,
    RESIDENCY_BUFFER,
    RESIDENCY_END,
    RESIDENCY_NEXT,
    RESIDENCY_OFFSET,
    RESIDENCY_START,
    S_GONE,
    S_OFFSET,
    S_RELEASE,
    S_RESIDENT,
    S_START,
    S_VALID,
    S_WRITE_BACK,
)
from .offsets import mark_touched
from .state import State
from .tables import Tables


@njit(cache=True, forceinline=True)
def begin_residency(tables: Tables, state: State, owner: int, offset: int | np.int64, first: int) -> None:
    """Makes buffer `owner` resident at `offset` from instruction `first` on. `holders` stays sorted by offset."""
    state.buffer[owner, S_RESIDENT] = 1
    state.buffer[owner, S_OFFSET] = offset
    state.buffer[owner, S_START] = first
    slot = state.counters[C_HOLDERS]
    while slot > 0 and state.buffer[state.holders[slot - 1], S_OFFSET] > state.buffer[owner, S_OFFSET]:
        state.holders[slot] = state.holders[slot - 1]
        slot -= 1
    state.holders[slot] = owner
    state.counters[C_HOLDERS] += 1
    if state.counters[C_CROSS] < 0:
        mark_touched(tables, state, owner)


@njit(cache=True, forceinline=True)
def end_residency(state: State, owner: int, last: int) -> None:
    """Ends the residency of `owner` with instruction `last`, and removes it from the holders."""
    record_residency(state, owner, last)
    state.buffer[owner, S_RESIDENT] = 0
    state.buffer[owner, S_GONE] = last
    state.counters[C_HOLDERS] -= 1
    slot = 0
    while state.holders[slot] != owner:
        slot += 1
    for following in range(slot, state.counters[C_HOLDERS]):
        state.holders[following] = state.holders[following + 1]


@njit(cache=True, forceinline=True)
def record_residency(state: State, owner: int, last: int) -> None:
    """Adds the residency of `owner` to the finished ones, and to the list of those that end with instruction `last`."""
    row = state.counters[C_RESIDENCIES]
    state.counters[C_RESIDENCIES] += 1
    state.residency[row, RESIDENCY_BUFFER] = owner
    state.residency[row, RESIDENCY_START] = state.buffer[owner, S_START]
    state.residency[row, RESIDENCY_END] = last
    state.residency[row, RESIDENCY_OFFSET] = state.buffer[owner, S_OFFSET]
    state.residency[row, RESIDENCY_NEXT] = state.step[last, D_ENDED]
    state.step[last, D_ENDED] = row


@njit(cache=True, forceinline=True)
def evict(tables: Tables, state: State, owner: int, offset: int | np.int64) -> None:
    """Ends the residencies that buffer `owner` overwrites at `offset`."""
    low = offset
    high = low + tables.buffer[owner, B_SIZE]
    slot = 0
    while slot < state.counters[C_HOLDERS]:
        other = state.holders[slot]
        begins = state.buffer[other, S_OFFSET]
        if begins < high and begins + tables.buffer[other, B_SIZE] > low:
            end_residency(state, other, state.buffer[other, S_RELEASE])
            state.counters[C_EVICTIONS] += 1
        else:
            slot += 1


@njit(cache=True, forceinline=True)
def update_release(tables: Tables, state: State, owner: int) -> None:
    """Protects `owner` from eviction if it is a sole copy or a cross-program prefetch with a use ahead, or if its
    write-back is pending."""
    following = tables.access[state.counters[C_ACCESS], A_NEXT]
    sole = state.buffer[owner, S_VALID] == NEVER and following >= 0 and tables.access[following, A_KIND] == OPERAND
    crosses = state.counters[C_CROSS] == owner and following >= 0
    if sole or crosses or state.buffer[owner, S_WRITE_BACK] >= 0:
        state.buffer[owner, S_RELEASE] = NEVER
