"""Asynchronous copies: prefetches are booked over idle HBM time, write-backs drain first in, first out.

A prefetch books its idle time when it is issued. A write-back is issued at the end of a queue, and drains as later
instructions become final; its offset is held until then.
"""

import numpy as np

from ..compiled.kernel import routine
from ..compiled.spans import first_above
from ..program.mapping import CROSS_PROGRAM, PREFETCH, WRITE_BACK
from .offsets import held_until
from .state import State
from .tables import Tables


@routine
def book_prefetch(tables: Tables, state: State, access: int, owner: int, t: int, start: int, stall: float) -> None:
    """Issues the prefetch for an access of instruction `t` right after instruction `start`; it stalls for `stall`
    seconds."""
    due = tables.access[access].due
    left = book(tables, state, owner, start, due)
    if stall > 0.0:
        state.now.stalled += 1
        if due == t:
            wait(tables, state, t, stall)
            drain(tables, state, t, t, stall - left)
        else:
            trips = tables.instruction[due].weight
            wait(tables, state, due, stall * tables.instruction[t].weight / trips if trips > 0.0 else 0.0)


@routine
def book(tables: Tables, state: State, owner: int, start: int, due: int) -> float:
    """Issues a prefetch, and returns the seconds of it that idle HBM time does not cover."""
    row = state.now.copies
    state.now.copies += 1
    state.copy[row].buffer = owner
    state.copy[row].direction = PREFETCH
    state.copy[row].start = start
    state.copy[row].end = due
    state.copy[row].again = 0
    state.step[start + 1].issued = min(state.step[start + 1].issued, due)
    left = tables.buffer[owner].size / tables.rates.hbm
    for i in range(start + 1, due):
        state.step[i].prefetches += 1
        used = min(left, state.step[i].idle_s)
        state.step[i].idle_s -= used
        left -= used
    return left


@routine
def book_cross_program(tables: Tables, state: State, owner: int, t: int) -> None:
    """Books the cross-program prefetch of `owner`: the previous execution has issued it, and the buffer is resident
    again when the program ends, for the next execution."""
    state.now.cross = owner
    # Due at its first use, or before the first instruction at which the limit of prefetches in flight is reached.
    due = 0
    while due < t and state.step[due].prefetches < tables.limits.prefetches:
        state.step[due].prefetches += 1
        due += 1
    while due > tables.instruction[due].outer:  # not within a loop
        due -= 1
        state.step[due].prefetches -= 1
    row = state.now.copies
    state.now.copies += 1
    state.copy[row].buffer = owner
    state.copy[row].direction = CROSS_PROGRAM
    state.copy[row].start = -1
    state.copy[row].end = due
    state.copy[row].again = 0


@routine
def wait(tables: Tables, state: State, t: int, seconds: float) -> None:
    """Makes each execution of instruction `t` wait."""
    state.step[t].wait_s += seconds
    state.now.reward -= seconds * tables.instruction[t].weight


@routine
def wait_once(tables: Tables, state: State, t: int, seconds: float) -> None:
    """Makes instruction `t` wait; if it begins a loop, in the first iteration only."""
    trips = tables.instruction[t].weight
    wait(tables, state, t, seconds * tables.instruction[t].entered / trips if trips > 0.0 else 0.0)


@routine
def queue_write_back(tables: Tables, state: State, owner: int, t: int, due: int | np.int64) -> None:
    """Issues a write-back right after instruction `t`; it is complete before instruction `due` at the latest."""
    row = state.now.copies
    state.now.copies += 1
    state.copy[row].buffer = owner
    state.copy[row].direction = WRITE_BACK
    state.copy[row].start = t
    state.copy[row].end = due
    state.copy[row].again = 0
    tail = state.now.queue_tail
    state.queue[tail].seconds = tables.buffer[owner].size / tables.rates.hbm
    state.queue[tail].copy = row
    state.now.queue_tail += 1
    state.buffer[owner].write_back = row


@routine
def drain(tables: Tables, state: State, before: int, due: int, seconds: float) -> float:
    """Spends HBM seconds on the write-backs issued before instruction `before`; those that complete are due at `due`.
    Returns the seconds left."""
    while seconds > 0.0 and state.now.queue_head < state.now.queue_tail:
        head = state.now.queue_head
        if state.copy[state.queue[head].copy].start >= before:
            break  # issued after this instruction
        if state.queue[head].seconds > seconds:
            state.queue[head].seconds -= seconds
            return 0.0
        seconds -= state.queue[head].seconds
        pop_write_back(tables, state, due)
    return seconds


@routine
def is_due(state: State, t: int) -> bool:
    """Returns whether the first pending write-back must be complete before instruction `t`."""
    return bool(state.copy[state.queue[state.now.queue_head].copy].end <= t)


@routine
def pop_write_back(tables: Tables, state: State, due: int) -> None:
    """Completes the first pending write-back before instruction `due`."""
    head = state.now.queue_head
    state.now.queue_head += 1
    row = state.queue[head].copy
    state.copy[row].end = due
    owner = state.copy[row].buffer
    state.buffer[owner].write_back = -1
    state.buffer[owner].valid = due
    state.buffer[owner].source = due  # the write-back may end only just before `due`
    last = state.buffer[owner].touched
    touched = held_until(tables, state, last) if last >= 0 else 0
    state.buffer[owner].release = max(touched, due - 1)
    state.now.ending = 1


@routine
def finish_write_back(tables: Tables, state: State, owner: int, t: int) -> None:
    """Makes instruction `t` wait until the pending write-back of `owner` is complete."""
    while state.buffer[owner].write_back >= 0:
        wait(tables, state, t, state.queue[state.now.queue_head].seconds)
        pop_write_back(tables, state, t)


@routine
def await_write_backs(tables: Tables, state: State, owner: int, offset: int | np.int64, t: int, stall: float) -> None:
    """Makes instruction `t` wait until the residents that `owner` overwrites at `offset` are written back, if the move
    was planned with a stall."""
    if stall <= 0.0:
        return
    low = offset
    high = low + tables.buffer[owner].aligned
    slot = first_above(state.holders, state.now.holders, low)
    while slot < state.now.holders and state.holders[slot].low < high:
        finish_write_back(tables, state, state.holders[slot].buffer, t)
        slot += 1
