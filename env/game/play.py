"""Carrying out a move: residencies begin and end, copies are booked, the instruction gets faster."""

from ..compiled.kernel import routine
from ..program.program import RESULT
from .clock import run_seconds
from .copies import await_write_backs, book_cross_program, book_prefetch, finish_write_back, queue_write_back
from .moves import COPY, DROP
from .offsets import held_until
from .options import Options
from .records import FAST, FAST_AND_OUT, NEVER, READ_LATER, WRITTEN_OUT
from .residencies import begin_residency, end_residency, evict, slot_of, update_release
from .state import State
from .tables import Tables


@routine
def play(tables: Tables, state: State, options: Options, move: int) -> None:
    """Makes a legal move at the access to decide next, as `legal_moves` has planned it in `options`."""
    access = state.now.access
    owner = tables.access[access].buffer
    t = tables.access[access].instruction
    is_result = tables.access[access].kind == RESULT
    if is_result and state.buffer[owner].write_back >= 0:
        finish_write_back(tables, state, owner, t)  # the old value must reach HBM before it is overwritten
    if move == DROP:
        # A collective that reads HBM lets go of a buffer that was prefetched meanwhile.
        lets_go = not is_result and tables.access[access].tied_to >= 0
        if not is_result and state.buffer[owner].valid > t:
            finish_write_back(tables, state, owner, t)
        if state.buffer[owner].resident == 1 and state.now.cross != owner and not lets_go:
            end_residency(state, owner, max(state.buffer[owner].release, state.buffer[owner].start))
        elif state.now.cross == owner and tables.access[access].next < 0:
            state.buffer[owner].release = tables.access[access].until
        if is_result:
            state.buffer[owner].valid = t + 1
            state.buffer[owner].source = t
    else:
        if state.buffer[owner].resident == 0:
            first = tables.access[access].due
            offset = options.offset
            if is_result:
                await_write_backs(tables, state, owner, offset, t, options.stall_s)
            elif move == COPY:
                book_prefetch(tables, state, access, owner, t, options.start, options.stall_s)
                first = options.start + 1
            else:
                book_cross_program(tables, state, owner, tables.access[access].due)
                offset = options.cross_offset
                first = 0
            evict(tables, state, owner, offset)
            begin_residency(tables, state, owner, offset, first)
        _serve_fast(tables, state, access, owner, t)
        carried = tables.access[access].carried
        if carried == WRITTEN_OUT or (carried == READ_LATER and move == COPY):
            state.access_fast[access] = FAST_AND_OUT
        if is_result:
            state.buffer[owner].valid = NEVER
            if move == COPY and carried == 0:
                queue_write_back(tables, state, owner, t, tables.access[access].out)
        update_release(tables, state, owner)
    state.buffer[owner].touched = access
    if tables.access[access].next < 0:
        state.now.ending = 1
        if state.buffer[owner].resident:
            state.holders[slot_of(state, owner)].last = 1
    state.now.access += 1


@routine
def _serve_fast(tables: Tables, state: State, access: int, owner: int, t: int) -> None:
    """Serves an access of instruction `t` from fast memory; the reward is the marginal saving."""
    before = run_seconds(tables, t, state.step[t].fast_bytes, state.step[t].key, state.step[t].saving_s)
    state.step[t].fast_bytes += tables.access[access].bytes
    state.step[t].key ^= tables.access[access].key
    state.step[t].saving_s += tables.access[access].saving_s
    after = run_seconds(tables, t, state.step[t].fast_bytes, state.step[t].key, state.step[t].saving_s)
    state.now.reward += (before - after) * tables.instruction[t].weight
    state.access_fast[access] = FAST
    # HBM keeps what a loop only reads: its place may be taken, and it is fetched again.
    until = held_until(tables, state, access)
    returns = until > t and tables.returning[access].back >= 0
    returns = returns and state.buffer[owner].valid <= t and state.now.cross != owner
    state.buffer[owner].returns = 1 if returns else 0
    state.buffer[owner].release = tables.returning[access].let_go if returns else until
