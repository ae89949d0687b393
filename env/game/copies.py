"""Asynchronous copies: prefetches are booked over idle HBM time, write-backs drain first in, first out.

A prefetch books its idle time when it is issued. A write-back is issued at the end of a queue, and drains as later
instructions become final; its offset is held until then.
"""

import numpy as np
from numba import njit

from ..program.mapping import CROSS_PROGRAM, PREFETCH, WRITE_BACK
from .columns import (
    A_DUE,
    A_INSTRUCTION,
    B_SIZE,
    C_COPIES,
    C_CROSS,
    C_ENDING,
    C_HOLDERS,
    C_QUEUE_HEAD,
    C_QUEUE_TAIL,
    C_STALLED,
    COPY_BUFFER,
    COPY_DIRECTION,
    COPY_END,
    COPY_START,
    D_FREE,
    D_ISSUED,
    D_PREFETCHES,
    D_WAIT,
    F_REWARD,
    I_OUTER,
    IF_ENTERED,
    IF_WEIGHT,
    L_PREFETCHES,
    R_HBM,
    S_OFFSET,
    S_RELEASE,
    S_SOURCE,
    S_TOUCH,
    S_VALID,
    S_WRITE_BACK,
)
from .state import State
from .tables import Tables


@njit(cache=True, forceinline=True)
def book_prefetch(tables: Tables, state: State, access: int, owner: int, t: int, start: int, stall: float) -> None:
    """Issues the prefetch for an access of instruction `t` right after instruction `start`; it stalls for `stall`
    seconds."""
    due = tables.access[access, A_DUE]
    left = book(tables, state, owner, start, due)
    if stall > 0.0:
        state.counters[C_STALLED] += 1
        if due == t:
            wait(tables, state, t, stall)
            drain(tables, state, t, t, stall - left)
        else:
            trips = tables.instruction_f[due, IF_WEIGHT]
            wait(tables, state, due, stall * tables.instruction_f[t, IF_WEIGHT] / trips if trips > 0.0 else 0.0)


@njit(cache=True, forceinline=True)
def book(tables: Tables, state: State, owner: int, start: int, due: int) -> float:
    """Issues a prefetch, and returns the seconds of it that idle HBM time does not cover."""
    row = state.counters[C_COPIES]
    state.counters[C_COPIES] += 1
    state.copy[row, COPY_BUFFER] = owner
    state.copy[row, COPY_DIRECTION] = PREFETCH
    state.copy[row, COPY_START] = start
    state.copy[row, COPY_END] = due
    state.step[start + 1, D_ISSUED] = min(state.step[start + 1, D_ISSUED], due)
    left = tables.buffer[owner, B_SIZE] / tables.rates[R_HBM]
    for i in range(start + 1, due):
        state.step[i, D_PREFETCHES] += 1
        used = min(left, state.step_f[i, D_FREE])
        state.step_f[i, D_FREE] -= used
        left -= used
    return left


@njit(cache=True)
def book_cross_program(tables: Tables, state: State, owner: int, t: int) -> None:
    """Books the cross-program prefetch of `owner`: the previous execution has issued it, and the buffer is resident
    again when the program ends, for the next execution."""
    state.counters[C_CROSS] = owner
    # Due at its first use, or before the first instruction at which the limit of prefetches in flight is reached.
    due = 0
    while due < t and state.step[due, D_PREFETCHES] < tables.limits[L_PREFETCHES]:
        state.step[due, D_PREFETCHES] += 1
        due += 1
    while due > tables.instruction[due, I_OUTER]:  # not within a loop
        due -= 1
        state.step[due, D_PREFETCHES] -= 1
    row = state.counters[C_COPIES]
    state.counters[C_COPIES] += 1
    state.copy[row, COPY_BUFFER] = owner
    state.copy[row, COPY_DIRECTION] = CROSS_PROGRAM
    state.copy[row, COPY_START] = -1
    state.copy[row, COPY_END] = due


@njit(cache=True, forceinline=True)
def wait(tables: Tables, state: State, t: int, seconds: float) -> None:
    """Makes each execution of instruction `t` wait."""
    state.step_f[t, D_WAIT] += seconds
    state.sums[F_REWARD] -= seconds * tables.instruction_f[t, IF_WEIGHT]


@njit(cache=True, forceinline=True)
def wait_once(tables: Tables, state: State, t: int, seconds: float) -> None:
    """Makes instruction `t` wait; if it begins a loop, in the first iteration only."""
    trips = tables.instruction_f[t, IF_WEIGHT]
    wait(tables, state, t, seconds * tables.instruction_f[t, IF_ENTERED] / trips if trips > 0.0 else 0.0)


@njit(cache=True, forceinline=True)
def queue_write_back(tables: Tables, state: State, owner: int, t: int, due: int | np.int64) -> None:
    """Issues a write-back right after instruction `t`; it is complete before instruction `due` at the latest."""
    row = state.counters[C_COPIES]
    state.counters[C_COPIES] += 1
    state.copy[row, COPY_BUFFER] = owner
    state.copy[row, COPY_DIRECTION] = WRITE_BACK
    state.copy[row, COPY_START] = t
    state.copy[row, COPY_END] = due
    tail = state.counters[C_QUEUE_TAIL]
    state.queue_s[tail] = tables.buffer[owner, B_SIZE] / tables.rates[R_HBM]
    state.queue_copy[tail] = row
    state.counters[C_QUEUE_TAIL] += 1
    state.buffer[owner, S_WRITE_BACK] = row


@njit(cache=True, forceinline=True)
def drain(tables: Tables, state: State, before: int, due: int, seconds: float) -> float:
    """Spends HBM seconds on the write-backs issued before instruction `before`; those that complete are due at `due`.
    Returns the seconds left."""
    while seconds > 0.0 and state.counters[C_QUEUE_HEAD] < state.counters[C_QUEUE_TAIL]:
        head = state.counters[C_QUEUE_HEAD]
        if state.copy[state.queue_copy[head], COPY_START] >= before:
            break  # issued after this instruction
        if state.queue_s[head] > seconds:
            state.queue_s[head] -= seconds
            return 0.0
        seconds -= state.queue_s[head]
        pop_write_back(tables, state, due)
    return seconds


@njit(cache=True, forceinline=True)
def is_due(state: State, t: int) -> bool:
    """Returns whether the first pending write-back must be complete before instruction `t`."""
    return bool(state.copy[state.queue_copy[state.counters[C_QUEUE_HEAD]], COPY_END] <= t)


@njit(cache=True, forceinline=True)
def pop_write_back(tables: Tables, state: State, due: int) -> None:
    """Completes the first pending write-back before instruction `due`."""
    head = state.counters[C_QUEUE_HEAD]
    state.counters[C_QUEUE_HEAD] += 1
    row = state.queue_copy[head]
    state.copy[row, COPY_END] = due
    owner = state.copy[row, COPY_BUFFER]
    state.buffer[owner, S_WRITE_BACK] = -1
    state.buffer[owner, S_VALID] = due
    state.buffer[owner, S_SOURCE] = due  # the write-back may end only just before `due`
    last = state.buffer[owner, S_TOUCH]
    touched = tables.access[last, A_INSTRUCTION] if last >= 0 else 0
    state.buffer[owner, S_RELEASE] = max(touched, due - 1)
    state.counters[C_ENDING] = 1


@njit(cache=True, forceinline=True)
def finish_write_back(tables: Tables, state: State, owner: int, t: int) -> None:
    """Makes instruction `t` wait until the pending write-back of `owner` is complete."""
    while state.buffer[owner, S_WRITE_BACK] >= 0:
        wait(tables, state, t, state.queue_s[state.counters[C_QUEUE_HEAD]])
        pop_write_back(tables, state, t)


@njit(cache=True, forceinline=True)
def await_write_backs(tables: Tables, state: State, owner: int, offset: int | np.int64, t: int, stall: float) -> None:
    """Makes instruction `t` wait until the residents that `owner` overwrites at `offset` are written back, if the move
    was planned with a stall."""
    if stall <= 0.0:
        return
    low = offset
    high = low + tables.buffer[owner, B_SIZE]
    for slot in range(state.counters[C_HOLDERS]):
        other = state.holders[slot]
        begins = state.buffer[other, S_OFFSET]
        if begins < high and begins + tables.buffer[other, B_SIZE] > low:
            finish_write_back(tables, state, other, t)
