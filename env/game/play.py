"""Carrying out a move: residencies begin and end, copies are booked, the instruction gets faster."""

from numba import njit

from ..program.program import RESULT
from .clock import run_seconds
from .columns import (
    A_BUFFER,
    A_CARRIED,
    A_DUE,
    A_INSTRUCTION,
    A_KEY,
    A_KIND,
    A_NEXT,
    A_OUT,
    A_UNTIL,
    AF_BYTES,
    AF_SAVING,
    C_ACCESS,
    C_CROSS,
    C_ENDING,
    D_FAST,
    D_KEY,
    D_SAVING,
    F_REWARD,
    FAST,
    FAST_AND_OUT,
    IF_WEIGHT,
    NEVER,
    READ_LATER,
    S_RELEASE,
    S_RESIDENT,
    S_SOURCE,
    S_START,
    S_TOUCH,
    S_VALID,
    S_WRITE_BACK,
    WRITTEN_OUT,
)
from .copies import await_write_backs, book_cross_program, book_prefetch, finish_write_back, queue_write_back
from .moves import COPY, DROP
from .options import Options
from .residencies import begin_residency, end_residency, evict, update_release
from .state import State
from .tables import Tables


@njit(cache=True)
def play(tables: Tables, state: State, options: Options, move: int) -> None:
    """Makes a legal move at the access to decide next, as `legal_moves` has planned it in `options`."""
    access = state.counters[C_ACCESS]
    owner = tables.access[access, A_BUFFER]
    t = tables.access[access, A_INSTRUCTION]
    is_result = tables.access[access, A_KIND] == RESULT
    if is_result and state.buffer[owner, S_WRITE_BACK] >= 0:
        finish_write_back(tables, state, owner, t)  # the old value must reach HBM before it is overwritten
    if move == DROP:
        if not is_result and state.buffer[owner, S_VALID] > t:
            finish_write_back(tables, state, owner, t)
        if state.buffer[owner, S_RESIDENT] == 1 and state.counters[C_CROSS] != owner:
            end_residency(state, owner, max(state.buffer[owner, S_RELEASE], state.buffer[owner, S_START]))
        elif state.counters[C_CROSS] == owner and tables.access[access, A_NEXT] < 0:
            state.buffer[owner, S_RELEASE] = tables.access[access, A_UNTIL]
        if is_result:
            state.buffer[owner, S_VALID] = t + 1
            state.buffer[owner, S_SOURCE] = t
    else:
        if state.buffer[owner, S_RESIDENT] == 0:
            first = tables.access[access, A_DUE]
            offset = options.offset
            if is_result:
                await_write_backs(tables, state, owner, offset, t, options.stall_s)
            elif move == COPY:
                book_prefetch(tables, state, access, owner, t, options.start, options.stall_s)
                first = options.start + 1
            else:
                book_cross_program(tables, state, owner, tables.access[access, A_DUE])
                offset = options.cross_offset
                first = 0
            evict(tables, state, owner, offset)
            begin_residency(tables, state, owner, offset, first)
        _serve_fast(tables, state, access, owner, t)
        carried = tables.access[access, A_CARRIED]
        if carried == WRITTEN_OUT or (carried == READ_LATER and move == COPY):
            state.access_fast[access] = FAST_AND_OUT
        if is_result:
            state.buffer[owner, S_VALID] = NEVER
            if move == COPY and carried == 0:
                queue_write_back(tables, state, owner, t, tables.access[access, A_OUT])
        update_release(tables, state, owner)
    state.buffer[owner, S_TOUCH] = access
    if tables.access[access, A_NEXT] < 0:
        state.counters[C_ENDING] = 1
    state.counters[C_ACCESS] += 1


@njit(cache=True, forceinline=True)
def _serve_fast(tables: Tables, state: State, access: int, owner: int, t: int) -> None:
    """Serves an access of instruction `t` from fast memory; the reward is the marginal saving."""
    before = run_seconds(tables, t, state.step_f[t, D_FAST], state.step[t, D_KEY], state.step_f[t, D_SAVING])
    state.step_f[t, D_FAST] += tables.access_f[access, AF_BYTES]
    state.step[t, D_KEY] ^= tables.access[access, A_KEY]
    state.step_f[t, D_SAVING] += tables.access_f[access, AF_SAVING]
    after = run_seconds(tables, t, state.step_f[t, D_FAST], state.step[t, D_KEY], state.step_f[t, D_SAVING])
    state.sums[F_REWARD] += (before - after) * tables.instruction_f[t, IF_WEIGHT]
    state.access_fast[access] = FAST
    state.buffer[owner, S_RELEASE] = tables.access[access, A_UNTIL]
