"""Time passes: an instruction becomes final once all its accesses are decided.

Then its idle HBM time is known. Write-backs drain first; prefetches book the remainder later.
"""

from numba import njit

from .clock import idle_seconds
from .columns import (
    A_CARRIED,
    A_INSTRUCTION,
    A_NEXT,
    A_TIED_TO,
    A_UNTIL,
    B_ALIGNED,
    B_SIZE,
    C_ACCESS,
    C_CROSS,
    C_ENDING,
    C_FINAL,
    C_HOLDERS,
    C_QUEUE_HEAD,
    C_QUEUE_TAIL,
    C_RESIDENCIES,
    D_FAST,
    D_FREE,
    D_KEY,
    D_SAVING,
    FAST_AND_OUT,
    I_DRAIN,
    I_WRITES_OUT,
    L_INSTRUCTIONS,
    L_REFETCH,
    L_WINDOW,
    L_WRITE_BACKS,
    NEVER,
    R_HBM,
    RESIDENCY_BUFFER,
    RESIDENCY_END,
    RESIDENCY_OFFSET,
    S_OFFSET,
    S_RELEASE,
    S_RESIDENT,
    S_START,
    S_TOUCH,
    S_WRITE_BACK,
)
from .copies import book, drain, finish_write_back, is_due, pop_write_back, queue_write_back, wait, wait_once
from .offsets import overlap
from .residencies import end_residency, record_residency
from .state import State
from .tables import Tables
from .windows import find_window


@njit(cache=True, forceinline=True)
def catch_up(tables: Tables, state: State) -> bool:
    """Finishes the instructions before the access to decide next. Returns False when the game is over."""
    access = state.counters[C_ACCESS]
    over = access == len(tables.access)
    until = tables.limits[L_INSTRUCTIONS] if over else tables.access[access, A_INSTRUCTION]
    while state.counters[C_FINAL] < until:
        _finish_instruction(tables, state, state.counters[C_FINAL])
        state.counters[C_FINAL] += 1
    return not over


@njit(cache=True, forceinline=True)
def _finish_instruction(tables: Tables, state: State, t: int) -> None:
    """Finishes instruction `t`, whose accesses are all decided: write-backs drain, and dead buffers leave."""
    idle = idle_seconds(tables, t, state.step_f[t, D_FAST], state.step[t, D_KEY], state.step_f[t, D_SAVING])
    if tables.instruction[t, I_WRITES_OUT]:
        _write_out(tables, state, t)
    state.step_f[t, D_FREE] = drain(tables, state, t, t + 1, idle)
    pending = state.counters[C_QUEUE_TAIL] - state.counters[C_QUEUE_HEAD]
    most = 0 if tables.instruction[t + 1, I_DRAIN] else tables.limits[L_WRITE_BACKS]
    while pending > most or (pending > 0 and is_due(state, t + 1)):
        wait_once(tables, state, t + 1, state.queue_s[state.counters[C_QUEUE_HEAD]])
        pop_write_back(tables, state, t + 1)
        pending -= 1
    cross = state.counters[C_CROSS]
    if cross >= 0 and t + 1 == tables.limits[L_INSTRUCTIONS]:
        if state.buffer[cross, S_RESIDENT]:
            end_residency(state, cross, t)
        else:
            _refetch(tables, state, cross)
    elif cross >= 0 and t + 2 == tables.limits[L_INSTRUCTIONS] and not state.buffer[cross, S_RESIDENT]:
        for slot in range(state.counters[C_HOLDERS]):  # the last chance to free its offset
            if overlap(tables, state, cross, state.holders[slot]):
                finish_write_back(tables, state, state.holders[slot], t + 1)
    # Buffers without a further use leave: their offsets are free from the next instruction on.
    if state.counters[C_ENDING] == 0:
        return
    state.counters[C_ENDING] = 0
    slot = 0
    while slot < state.counters[C_HOLDERS]:
        owner = state.holders[slot]
        last = state.buffer[owner, S_TOUCH]
        if state.buffer[owner, S_WRITE_BACK] < 0 and tables.access[last, A_NEXT] < 0 and owner != cross:
            if state.buffer[owner, S_RELEASE] > t:  # held over a loop
                state.counters[C_ENDING] = 1
                slot += 1
                continue
            end_residency(state, owner, state.buffer[owner, S_RELEASE])
        else:
            slot += 1


@njit(cache=True)
def _write_out(tables: Tables, state: State, t: int) -> None:
    """Writes back the buffers that the loop ending with instruction `t` carried, where their first move said so."""
    for slot in range(state.counters[C_HOLDERS]):
        owner = state.holders[slot]
        last = state.buffer[owner, S_TOUCH]
        if last < 0 or tables.access[last, A_CARRIED] == 0 or tables.access[last, A_UNTIL] != t:
            continue
        first = tables.access[last, A_TIED_TO]
        if state.access_fast[first if first >= 0 else last] == FAST_AND_OUT:
            queue_write_back(tables, state, owner, t, NEVER)
            state.buffer[owner, S_RELEASE] = NEVER


@njit(cache=True)
def _refetch(tables: Tables, state: State, owner: int) -> None:
    """Fetches `owner` again at the end of the program, for the next execution: another buffer has taken its offset."""
    due = tables.limits[L_INSTRUCTIONS]
    earliest = max(tables.limits[L_REFETCH], due - tables.limits[L_WINDOW])
    for row in range(state.counters[C_RESIDENCIES]):
        other = state.residency[row, RESIDENCY_BUFFER]
        low = state.residency[row, RESIDENCY_OFFSET]
        mine = state.buffer[owner, S_OFFSET]
        if low < mine + tables.buffer[owner, B_ALIGNED] and mine < low + tables.buffer[other, B_ALIGNED]:
            earliest = max(earliest, state.residency[row, RESIDENCY_END])
    need = tables.buffer[owner, B_SIZE] / tables.rates[R_HBM]
    _, wide, near_start, _ = find_window(tables, state, need, due, earliest)
    start = wide if wide > -2 else near_start
    wait(tables, state, due, book(tables, state, owner, start, due))
    state.buffer[owner, S_START] = start + 1
    record_residency(state, owner, due - 1)
