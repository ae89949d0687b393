"""The rules of mallocGame, compiled: legal moves, what a move does, and how time passes between moves.

A game walks the accesses of a program in order. `advance` plays every access with one legal move, and those of trivial
buffers, and stops before the first with a choice; `play` makes a move there. The rules and their reasons:
docs/mallocgame.md.
"""

import numpy as np
from numba import njit

from ..compiled.unowned import unowned
from ..program.mapping import CROSS_PROGRAM, PREFETCH, WRITE_BACK
from ..program.program import OPERAND, RESULT
from .offsets import find_offset, find_untouched, free_after, overlap, overwritten, seconds_until_out, touch
from .state import (
    A_BUFFER,
    A_CARRIED,
    A_DUE,
    A_EARLIEST,
    A_HINT,
    A_INSTRUCTION,
    A_KEY,
    A_KIND,
    A_NEXT,
    A_OUT,
    A_SINCE,
    A_TIED_TO,
    A_UNTIL,
    AF_AHEAD,
    AF_BYTES,
    AF_ONCE,
    AF_SAVING,
    B_ALIGNED,
    B_CROSS,
    B_INPUT,
    B_LAST,
    B_LAST_RESULT,
    B_OUTPUT,
    B_PLAYED,
    B_SIZE,
    B_TRIVIAL,
    C_ACCESS,
    C_COPIES,
    C_CROSS,
    C_CROSS_OFFSET,
    C_DECISIONS,
    C_ENDING,
    C_EVICTIONS,
    C_FINAL,
    C_HOLDERS,
    C_NAMED,
    C_PLAN_OFFSET,
    C_PLAN_START,
    C_QUEUE_HEAD,
    C_QUEUE_TAIL,
    C_RESIDENCIES,
    C_STALLED,
    C_UNTOUCHED,
    COPY_BUFFER,
    COPY_DIRECTION,
    COPY_END,
    COPY_START,
    D_ENDED,
    D_FAST,
    D_FREE,
    D_ISSUED,
    D_KEY,
    D_PREFETCHES,
    D_SAVING,
    D_WAIT,
    F_PLAN_STALL,
    F_PLAN_SUPPLY,
    F_PLAN_VICTIMS,
    F_REWARD,
    FAST,
    FAST_AND_OUT,
    I_DRAIN,
    I_KEY,
    I_OUTER,
    I_WRITES_BACK,
    I_WRITES_OUT,
    IF_BYTES,
    IF_COMPUTE,
    IF_CYCLES,
    IF_ENTERED,
    IF_LEAST,
    IF_MOST,
    IF_WEIGHT,
    L_FAST,
    L_INSTRUCTIONS,
    L_PREFETCHES,
    L_REFETCH,
    L_RESERVED,
    L_WINDOW,
    L_WRITE_BACKS,
    NEVER,
    R_CYCLES,
    R_FAST,
    R_HBM,
    R_MSA,
    R_PATIENCE,
    R_SLACK,
    READ_LATER,
    RESIDENCY_BUFFER,
    RESIDENCY_END,
    RESIDENCY_NEXT,
    RESIDENCY_OFFSET,
    RESIDENCY_START,
    S_GONE,
    S_OFFSET,
    S_RELEASE,
    S_RESIDENT,
    S_SOURCE,
    S_START,
    S_TOUCH,
    S_VALID,
    S_WRITE_BACK,
    WRITTEN_OUT,
    State,
    Tables,
)

NO_COPY = 0
COPY = 1
DROP = 2
NUM_MOVES = 3
# How many windows a prefetch tries when the one that hides it whole finds no room.
_WINDOW_TRIES = 4
# Instructions after which a trivial value is not kept as the only copy.
_LONG_LIFE = 32


@njit(cache=True)
def reset(tables: Tables, state: State) -> None:
    """Sets `state` to the beginning of a game."""
    state.access_fast[:] = 0
    state.buffer[:] = 0
    state.buffer[:, S_TOUCH] = -1
    state.buffer[:, S_WRITE_BACK] = -1
    state.buffer[:, S_GONE] = -1
    state.buffer[:, S_SOURCE] = -1
    for owner in range(len(tables.buffer)):
        state.buffer[owner, S_VALID] = 0 if tables.buffer[owner, B_INPUT] else NEVER
    state.step[:, D_PREFETCHES] = 0
    state.step[:, D_ISSUED] = NEVER
    state.step[:, D_ENDED] = -1
    state.step[:, D_KEY] = tables.instruction[:, I_KEY]
    state.step_f[:] = 0.0
    state.counters[:] = 0
    state.counters[C_NAMED] = -1
    state.counters[C_CROSS] = -1
    state.counters[C_UNTOUCHED] = 1
    state.untouched[0, 0] = tables.limits[L_RESERVED]
    state.untouched[0, 1] = tables.limits[L_FAST]
    state.sums[:] = 0.0


@njit(cache=True, forceinline=True)
def run_seconds(tables: Tables, t: int, fast_bytes: float, key: int, saving: float) -> float:
    """Returns how long instruction `t` runs, in seconds of the game's clock.

    The placement of its accesses comes as the sum of their bytes (`msa`), and for `cycles` as their key in the table
    and the sum of their savings.
    """
    seconds = 0.0
    if tables.rates[R_MSA] > 0.0:
        seconds = tables.rates[R_MSA] * _msa_seconds(tables, t, fast_bytes)
    if tables.rates[R_CYCLES] > 0.0:
        seconds += tables.rates[R_CYCLES] * _cycles_seconds(tables, t, key, saving)
    return seconds


@njit(cache=True, forceinline=True)
def _msa_seconds(tables: Tables, t: int, fast_bytes: float) -> float:
    total = tables.instruction_f[t, IF_BYTES]
    fast = min(fast_bytes, total)
    memory = (total - fast) / tables.rates[R_HBM] + fast / tables.rates[R_FAST]
    return max(tables.instruction_f[t, IF_COMPUTE], memory)


@njit(cache=True, forceinline=True)
def _cycles_seconds(tables: Tables, t: int, key: int, saving: float) -> float:
    last = len(tables.cycle_keys) - 1
    slot = key & last
    while tables.cycle_keys[slot] != 0:
        if tables.cycle_keys[slot] == key:
            return tables.cycle_s[slot]
        slot = (slot + 1) & last
    completed = tables.instruction_f[t, IF_CYCLES] - saving
    return min(max(completed, tables.instruction_f[t, IF_LEAST]), tables.instruction_f[t, IF_MOST])


@njit(cache=True, forceinline=True)
def idle_seconds(tables: Tables, t: int, fast_bytes: float, key: int, saving: float) -> float:
    """Returns how long HBM is idle while instruction `t` runs, in seconds of the game's clock."""
    total = tables.instruction_f[t, IF_BYTES]
    hbm = (total - min(fast_bytes, total)) / tables.rates[R_HBM]
    return max(0.0, run_seconds(tables, t, fast_bytes, key, saving) - hbm)


@njit(cache=True)
def legal_moves(tables: Tables, state: State, legal: np.ndarray) -> int:
    """Fills `legal[3]` for the access to decide next, plans the move that needs room; returns how many are legal."""
    access = state.counters[C_ACCESS]
    owner = tables.access[access, A_BUFFER]
    t = tables.access[access, A_INSTRUCTION]
    twin = tables.access[access, A_TIED_TO]
    resident = state.buffer[owner, S_RESIDENT] == 1
    legal[:] = False
    state.counters[C_PLAN_OFFSET] = -1
    state.counters[C_CROSS_OFFSET] = -1
    state.sums[F_PLAN_STALL] = 0.0
    state.sums[F_PLAN_VICTIMS] = 0.0
    state.sums[F_PLAN_SUPPLY] = 0.0
    if tables.access[access, A_KIND] == OPERAND:
        if twin >= 0:
            legal[NO_COPY if state.access_fast[twin] else DROP] = True
        else:
            legal[NO_COPY] = resident
            legal[DROP] = state.buffer[owner, S_VALID] <= t
            if resident:
                if not legal[DROP] and tables.buffer[owner, B_TRIVIAL] == 0:
                    wait = seconds_until_out(tables, state, owner, t)
                    if wait < np.inf:
                        legal[DROP] = True
                        state.sums[F_PLAN_STALL] = wait
                legal[COPY] = tables.access[access, A_CARRIED] == READ_LATER
            elif tables.buffer[owner, B_PLAYED] and legal[DROP]:
                legal[COPY] = plan_prefetch(tables, state, access, owner, t)
                if tables.buffer[owner, B_CROSS] and state.counters[C_CROSS] < 0 and state.buffer[owner, S_TOUCH] < 0:
                    state.counters[C_CROSS_OFFSET] = find_untouched(tables, state, owner, access)
                    legal[NO_COPY] = state.counters[C_CROSS_OFFSET] >= 0
    elif twin >= 0 and not state.access_fast[twin]:
        legal[DROP] = True  # written over its operand, which was read from HBM, or carried in HBM
    else:
        legal[DROP] = twin < 0
        if tables.buffer[owner, B_PLAYED]:
            room = resident
            if not room:
                room = _plan_result(tables, state, access, owner, t)
            following = tables.access[access, A_NEXT]
            again = following >= 0 and tables.access[following, A_INSTRUCTION] == t
            # The last result of an output has to reach HBM; one that is written again at once need not.
            must_reach = tables.buffer[owner, B_OUTPUT] and access == tables.buffer[owner, B_LAST_RESULT]
            wanted = must_reach or (following >= 0 and tables.access[following, A_KIND] == OPERAND)
            legal[NO_COPY] = room and not must_reach
            legal[COPY] = room and wanted and not again and tables.instruction[t, I_WRITES_BACK]
            # What a loop carries is written back after the loop, if the first access says so or it must be.
            if tables.access[access, A_CARRIED]:
                legal[NO_COPY] = room
                legal[COPY] = room and twin < 0 and tables.access[access, A_CARRIED] == READ_LATER
    return legal[0] + legal[1] + legal[2]


@njit(cache=True, forceinline=True)
def _plan_result(tables: Tables, state: State, access: int, owner: int, t: int) -> bool:
    """Plans room for a result: free, or overwriting what HBM holds, or waiting until write-backs have let go of it.

    What a loop carries takes its room from the loop's first instruction on, since the next pass finds it there.
    """
    may_evict = tables.buffer[owner, B_TRIVIAL] == 0
    due = tables.access[access, A_DUE]
    offset, victims = find_offset(tables, state, owner, due, t, access, may_evict, False)
    if offset < 0 and may_evict and due == t and state.counters[C_QUEUE_HEAD] < state.counters[C_QUEUE_TAIL]:
        offset, victims = find_offset(tables, state, owner, t, t, access, True, True)
        if offset >= 0:
            victims, wait = overwritten(tables, state, owner, offset, t, t, access)
            gain = tables.rates[R_PATIENCE] * tables.access_f[access, AF_AHEAD]
            if state.counters[C_NAMED] < 0 and wait * tables.instruction_f[t, IF_WEIGHT] >= gain:
                return False
            state.sums[F_PLAN_STALL] = wait
    state.counters[C_PLAN_OFFSET] = offset
    state.sums[F_PLAN_VICTIMS] = victims
    return bool(offset >= 0)


@njit(cache=True, forceinline=True)
def _find_window(tables: Tables, state: State, need: float, due: int, earliest: int) -> tuple[int, int, int, float]:
    """Looks for a window for a copy that is due at `due` and needs HBM for `need` seconds.

    Copies drain first in, first out, so the idle time found must not belong to a copy that is issued later and due
    earlier: where the walk back crosses the issue of one, it starts counting anew.

    Returns:
      The latest start whose window hides the copy, and one that does with slack if there is any, -2 if there is none;
      and start and idle seconds of the stretch next to `due`, in front of every earlier copy's issue.
    """
    supply = 0.0
    near_supply, near_start = 0.0, due - 1
    near = True
    found, wide = -2, -2
    start = due - 1
    while True:
        # Invariant: `supply` counts instructions start + 1 .. due - 1, or of the stretch since the last crossing.
        if found == -2 and supply >= need:
            found = start
        if supply >= need * tables.rates[R_SLACK]:
            wide = start
            break
        if start <= earliest or state.step[start, D_PREFETCHES] >= tables.limits[L_PREFETCHES]:
            wide = start if found > -2 else -2
            break
        if state.step[start + 1, D_ISSUED] < due:
            if near:
                near = False
                near_supply, near_start = supply, start
            supply = 0.0
        supply += state.step_f[start, D_FREE]
        start -= 1
    if near:
        near_supply, near_start = supply, start
    return found, wide, near_start, near_supply


@njit(cache=True, forceinline=True)
def plan_prefetch(tables: Tables, state: State, access: int, owner: int, t: int) -> bool:
    """Plans a prefetch for a read at `t`: the latest window that hides it, with slack if there is room; else one that
    stalls for less than it gains.

    It is due at `t`, or before a loop that only reads the buffer. A window that the tables hint at is tried first.
    """
    due = tables.access[access, A_DUE]
    earliest = max(tables.access[access, A_EARLIEST], state.buffer[owner, S_SOURCE], due - tables.limits[L_WINDOW])
    earliest = max(earliest, state.buffer[owner, S_GONE])  # its own last residency is no room
    if earliest > due - 1:
        return False
    if tables.access[access, A_SINCE] >= due or not _plan_since(tables, state, access, owner, t, earliest):
        return _plan_latest(tables, state, access, owner, t, earliest)
    start, offset = state.counters[C_PLAN_START], state.counters[C_PLAN_OFFSET]
    stall, victims = state.sums[F_PLAN_STALL], state.sums[F_PLAN_VICTIMS]
    supply = state.sums[F_PLAN_SUPPLY]
    if stall <= 0.0 or start <= tables.access[access, A_SINCE]:
        return True
    # It has to begin later than the tables hint at, and stalls: another offset may be better.
    if _plan_latest(tables, state, access, owner, t, earliest) and state.sums[F_PLAN_STALL] < stall:
        return True
    state.sums[F_PLAN_SUPPLY] = supply
    return _keep_plan(state, start, offset, stall, victims)


@njit(cache=True)
def _plan_latest(tables: Tables, state: State, access: int, owner: int, t: int, earliest: int) -> bool:
    """Plans a prefetch over the latest window that hides it, or one that stalls for less than it gains."""
    due = tables.access[access, A_DUE]
    trivial = tables.buffer[owner, B_TRIVIAL] == 1
    need = tables.buffer[owner, B_SIZE] / tables.rates[R_HBM]
    weight = tables.instruction_f[t, IF_WEIGHT]
    found, wide, near_start, near_supply = _find_window(tables, state, need, due, earliest)
    state.sums[F_PLAN_SUPPLY] = max(near_supply, need if found > -2 else 0.0)
    gain = tables.rates[R_PATIENCE] * tables.access_f[access, AF_AHEAD]
    if found > -2:
        for first in (wide, found):
            offset, victims = find_offset(tables, state, owner, first + 1, t, access, not trivial, False)
            if offset >= 0:
                return _keep_plan(state, first, offset, 0.0, victims)
            if wide == found:
                break
    if trivial:
        return False
    # Later windows next to `due`: less time, more room. Those that begin where HBM has no idle time gain nothing.
    while near_start < due - 1 and state.step_f[near_start + 1, D_FREE] <= 0.0:
        near_start += 1
    last = -2
    for attempt in range(_WINDOW_TRIES + 1):
        first = near_start + ((due - 1 - near_start) * attempt) // _WINDOW_TRIES
        if first == last:
            continue
        last = first
        available = 0.0
        for i in range(first + 1, due):
            available += state.step_f[i, D_FREE]
        missing = max(0.0, need - available)
        # Before a loop no write-back is pending; a wait there is one for many executions of `t`.
        stall = _stall(state, missing) if due == t else missing
        stall *= tables.access_f[access, AF_ONCE]
        if stall * weight >= gain:
            break  # later windows stall longer
        offset, victims = find_offset(tables, state, owner, first + 1, t, access, True, False)
        if offset >= 0:
            return _keep_plan(state, first, offset, stall, victims)
    return False


@njit(cache=True, forceinline=True)
def _plan_since(tables: Tables, state: State, access: int, owner: int, t: int, earliest: int) -> bool:
    """Plans a prefetch at the offset that the move names or the tables hint at, as soon as they hint at and that is
    free; False if it never is, or the instruction would wait for longer than that gains."""
    due, named = tables.access[access, A_DUE], state.counters[C_NAMED]
    offset = named if named >= 0 else tables.access[access, A_HINT]
    if offset < 0:
        return False
    start = free_after(tables, state, owner, offset, max(tables.access[access, A_SINCE], earliest), t)
    if start >= due:
        return False
    need = tables.buffer[owner, B_SIZE] / tables.rates[R_HBM]
    available = 0.0
    for i in range(start + 1, due):
        if state.step[i, D_PREFETCHES] >= tables.limits[L_PREFETCHES]:
            return False
        available += state.step_f[i, D_FREE]
    missing = max(0.0, need - available)
    stall = 0.0
    if missing > 0.0:
        stall = (_stall(state, missing) if due == t else missing) * tables.access_f[access, AF_ONCE]
        if stall * tables.instruction_f[t, IF_WEIGHT] >= tables.rates[R_PATIENCE] * tables.access_f[access, AF_AHEAD]:
            return False
    victims, _ = overwritten(tables, state, owner, offset, start + 1, t, access)
    if victims > 0.0 and tables.buffer[owner, B_TRIVIAL]:
        return False
    state.sums[F_PLAN_SUPPLY] = min(available, need)
    return _keep_plan(state, start, offset, stall, victims)


@njit(cache=True, forceinline=True)
def _keep_plan(state: State, start: int, offset: np.int64, stall: float, victims: float) -> bool:
    state.counters[C_PLAN_START] = start
    state.counters[C_PLAN_OFFSET] = offset
    state.sums[F_PLAN_STALL] = stall
    state.sums[F_PLAN_VICTIMS] = victims
    return True


@njit(cache=True, forceinline=True)
def _stall(state: State, missing: float) -> float:
    """Returns how long `missing` HBM seconds take while pending write-backs share HBM."""
    pending = 0.0
    for k in range(state.counters[C_QUEUE_HEAD], state.counters[C_QUEUE_TAIL]):
        pending += state.queue_s[k]
    return missing + min(missing, pending)


@njit(cache=True)
def play(tables: Tables, state: State, move: int) -> None:
    """Makes a legal move at the access to decide next. `legal_moves` has planned it."""
    access = state.counters[C_ACCESS]
    owner = tables.access[access, A_BUFFER]
    t = tables.access[access, A_INSTRUCTION]
    is_result = tables.access[access, A_KIND] == RESULT
    if is_result and state.buffer[owner, S_WRITE_BACK] >= 0:
        _finish_write_back(tables, state, owner, t)  # the old value must be out before it is written over
    if move == DROP:
        if not is_result and state.buffer[owner, S_VALID] > t:
            _finish_write_back(tables, state, owner, t)
        if state.buffer[owner, S_RESIDENT] == 1 and state.counters[C_CROSS] != owner:
            _end_residency(state, owner, max(state.buffer[owner, S_RELEASE], state.buffer[owner, S_START]))
        elif state.counters[C_CROSS] == owner and tables.access[access, A_NEXT] < 0:
            state.buffer[owner, S_RELEASE] = tables.access[access, A_UNTIL]
        if is_result:
            state.buffer[owner, S_VALID] = t + 1
            state.buffer[owner, S_SOURCE] = t
    else:
        if state.buffer[owner, S_RESIDENT] == 0:
            first = tables.access[access, A_DUE]
            if is_result:
                _let_go(tables, state, owner, t)
            elif move == COPY:
                _book_prefetch(tables, state, access, owner, t)
                first = state.counters[C_PLAN_START] + 1
            else:
                _book_cross_program(tables, state, owner, tables.access[access, A_DUE])
                first = 0
            _evict(tables, state, owner, first)
            _begin_residency(tables, state, owner, first)
        _touch_fast(tables, state, access, owner, t)
        carried = tables.access[access, A_CARRIED]
        if carried == WRITTEN_OUT or (carried == READ_LATER and move == COPY):
            state.access_fast[access] = FAST_AND_OUT
        if is_result:
            state.buffer[owner, S_VALID] = NEVER
            if move == COPY and carried == 0:
                _queue_write_back(tables, state, owner, t, tables.access[access, A_OUT])
        _update_release(tables, state, owner)
    state.buffer[owner, S_TOUCH] = access
    if tables.access[access, A_NEXT] < 0:
        state.counters[C_ENDING] = 1
    state.counters[C_ACCESS] += 1


@njit(cache=True, forceinline=True)
def _touch_fast(tables: Tables, state: State, access: int, owner: int, t: int) -> None:
    before = run_seconds(tables, t, state.step_f[t, D_FAST], state.step[t, D_KEY], state.step_f[t, D_SAVING])
    state.step_f[t, D_FAST] += tables.access_f[access, AF_BYTES]
    state.step[t, D_KEY] ^= tables.access[access, A_KEY]
    state.step_f[t, D_SAVING] += tables.access_f[access, AF_SAVING]
    after = run_seconds(tables, t, state.step_f[t, D_FAST], state.step[t, D_KEY], state.step_f[t, D_SAVING])
    state.sums[F_REWARD] += (before - after) * tables.instruction_f[t, IF_WEIGHT]
    state.access_fast[access] = FAST
    state.buffer[owner, S_RELEASE] = tables.access[access, A_UNTIL]


@njit(cache=True, forceinline=True)
def _update_release(tables: Tables, state: State, owner: int) -> None:
    """Held hard is a sole copy or a cross-program prefetch that is still wanted, and what is being written back."""
    following = tables.access[state.counters[C_ACCESS], A_NEXT]
    sole = state.buffer[owner, S_VALID] == NEVER and following >= 0 and tables.access[following, A_KIND] == OPERAND
    crosses = state.counters[C_CROSS] == owner and following >= 0
    if sole or crosses or state.buffer[owner, S_WRITE_BACK] >= 0:
        state.buffer[owner, S_RELEASE] = NEVER


@njit(cache=True, forceinline=True)
def _begin_residency(tables: Tables, state: State, owner: int, first: int) -> None:
    state.buffer[owner, S_RESIDENT] = 1
    state.buffer[owner, S_OFFSET] = state.counters[C_PLAN_OFFSET]
    state.buffer[owner, S_START] = first
    slot = state.counters[C_HOLDERS]
    while slot > 0 and state.buffer[state.holders[slot - 1], S_OFFSET] > state.buffer[owner, S_OFFSET]:
        state.holders[slot] = state.holders[slot - 1]
        slot -= 1
    state.holders[slot] = owner
    state.counters[C_HOLDERS] += 1
    if state.counters[C_CROSS] < 0:
        touch(tables, state, owner)


@njit(cache=True, forceinline=True)
def _end_residency(state: State, owner: int, last: int) -> None:
    """Closes the residency of `owner` with instruction `last` and takes it off the holders."""
    _close_residency(state, owner, last)
    state.buffer[owner, S_RESIDENT] = 0
    state.buffer[owner, S_GONE] = last
    state.counters[C_HOLDERS] -= 1
    slot = 0
    while state.holders[slot] != owner:
        slot += 1
    for following in range(slot, state.counters[C_HOLDERS]):
        state.holders[following] = state.holders[following + 1]


@njit(cache=True, forceinline=True)
def _close_residency(state: State, owner: int, last: int) -> None:
    row = state.counters[C_RESIDENCIES]
    state.counters[C_RESIDENCIES] += 1
    state.residency[row, RESIDENCY_BUFFER] = owner
    state.residency[row, RESIDENCY_START] = state.buffer[owner, S_START]
    state.residency[row, RESIDENCY_END] = last
    state.residency[row, RESIDENCY_OFFSET] = state.buffer[owner, S_OFFSET]
    state.residency[row, RESIDENCY_NEXT] = state.step[last, D_ENDED]
    state.step[last, D_ENDED] = row


@njit(cache=True, forceinline=True)
def _evict(tables: Tables, state: State, owner: int, first: int) -> None:
    """Ends the residencies that the planned offset overwrites from instruction `first` on."""
    low = state.counters[C_PLAN_OFFSET]
    high = low + tables.buffer[owner, B_SIZE]
    slot = 0
    while slot < state.counters[C_HOLDERS]:
        other = state.holders[slot]
        begins = state.buffer[other, S_OFFSET]
        if begins < high and begins + tables.buffer[other, B_SIZE] > low:
            _end_residency(state, other, state.buffer[other, S_RELEASE])
            state.counters[C_EVICTIONS] += 1
        else:
            slot += 1


@njit(cache=True, forceinline=True)
def _let_go(tables: Tables, state: State, owner: int, t: int) -> None:
    """Makes instruction `t` wait until what lies at the planned offset is written back."""
    if state.sums[F_PLAN_STALL] <= 0.0:
        return
    low = state.counters[C_PLAN_OFFSET]
    high = low + tables.buffer[owner, B_SIZE]
    for slot in range(state.counters[C_HOLDERS]):
        other = state.holders[slot]
        begins = state.buffer[other, S_OFFSET]
        if begins < high and begins + tables.buffer[other, B_SIZE] > low:
            _finish_write_back(tables, state, other, t)


@njit(cache=True)
def _book_cross_program(tables: Tables, state: State, owner: int, t: int) -> None:
    """The previous execution has prefetched `owner`; it stays to the end, for the next one."""
    state.counters[C_CROSS] = owner
    state.counters[C_PLAN_OFFSET] = state.counters[C_CROSS_OFFSET]
    # Due at its first use, or before the first instruction with as many prefetches in flight as may be.
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
def _book_prefetch(tables: Tables, state: State, access: int, owner: int, t: int) -> None:
    due = tables.access[access, A_DUE]
    left = _book(tables, state, owner, state.counters[C_PLAN_START], due)
    stall = state.sums[F_PLAN_STALL]
    if stall > 0.0:
        state.counters[C_STALLED] += 1
        if due == t:
            _wait(tables, state, t, stall)
            _drain(tables, state, t, t, stall - left)
        else:
            trips = tables.instruction_f[due, IF_WEIGHT]
            _wait(tables, state, due, stall * tables.instruction_f[t, IF_WEIGHT] / trips if trips > 0.0 else 0.0)


@njit(cache=True, forceinline=True)
def _book(tables: Tables, state: State, owner: int, start: int, due: int) -> float:
    """Issues a prefetch; returns the seconds of it that idle time does not cover."""
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
def _refetch(tables: Tables, state: State, owner: int) -> None:
    """Fetches what the next execution is to find in fast memory, at the end of this one: something has taken its
    room."""
    due = tables.limits[L_INSTRUCTIONS]
    earliest = max(tables.limits[L_REFETCH], due - tables.limits[L_WINDOW])
    for row in range(state.counters[C_RESIDENCIES]):
        other = state.residency[row, RESIDENCY_BUFFER]
        low = state.residency[row, RESIDENCY_OFFSET]
        mine = state.buffer[owner, S_OFFSET]
        if low < mine + tables.buffer[owner, B_ALIGNED] and mine < low + tables.buffer[other, B_ALIGNED]:
            earliest = max(earliest, state.residency[row, RESIDENCY_END])
    need = tables.buffer[owner, B_SIZE] / tables.rates[R_HBM]
    _, wide, near_start, _ = _find_window(tables, state, need, due, earliest)
    start = wide if wide > -2 else near_start
    _wait(tables, state, due, _book(tables, state, owner, start, due))
    state.buffer[owner, S_START] = start + 1
    _close_residency(state, owner, due - 1)


@njit(cache=True, forceinline=True)
def _wait(tables: Tables, state: State, t: int, seconds: float) -> None:
    state.step_f[t, D_WAIT] += seconds
    state.sums[F_REWARD] -= seconds * tables.instruction_f[t, IF_WEIGHT]


@njit(cache=True, forceinline=True)
def _wait_once(tables: Tables, state: State, t: int, seconds: float) -> None:
    """A wait before instruction `t`, not in every pass if it begins a loop."""
    trips = tables.instruction_f[t, IF_WEIGHT]
    _wait(tables, state, t, seconds * tables.instruction_f[t, IF_ENTERED] / trips if trips > 0.0 else 0.0)


@njit(cache=True)
def _write_out(tables: Tables, state: State, t: int) -> None:
    """Writes back what the loop that ends with instruction `t` carried in fast memory, where that was decided."""
    for slot in range(state.counters[C_HOLDERS]):
        owner = state.holders[slot]
        last = state.buffer[owner, S_TOUCH]
        if last < 0 or tables.access[last, A_CARRIED] == 0 or tables.access[last, A_UNTIL] != t:
            continue
        first = tables.access[last, A_TIED_TO]
        if state.access_fast[first if first >= 0 else last] == FAST_AND_OUT:
            _queue_write_back(tables, state, owner, t, NEVER)
            state.buffer[owner, S_RELEASE] = NEVER


@njit(cache=True, forceinline=True)
def _queue_write_back(tables: Tables, state: State, owner: int, t: int, due: int | np.int64) -> None:
    """Issues a write-back after instruction `t`, which is complete before `due` at the latest."""
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
def _drain(tables: Tables, state: State, before: int, due: int, seconds: float) -> float:
    """Spends HBM time on write-backs issued before `before`, which are then `due`; returns the seconds left."""
    while seconds > 0.0 and state.counters[C_QUEUE_HEAD] < state.counters[C_QUEUE_TAIL]:
        head = state.counters[C_QUEUE_HEAD]
        if state.copy[state.queue_copy[head], COPY_START] >= before:
            break  # issued only now
        if state.queue_s[head] > seconds:
            state.queue_s[head] -= seconds
            return 0.0
        seconds -= state.queue_s[head]
        _pop_write_back(tables, state, due)
    return seconds


@njit(cache=True, forceinline=True)
def _is_due(state: State, t: int) -> bool:
    """Returns whether the first pending write-back is to be complete before instruction `t`."""
    return bool(state.copy[state.queue_copy[state.counters[C_QUEUE_HEAD]], COPY_END] <= t)


@njit(cache=True, forceinline=True)
def _pop_write_back(tables: Tables, state: State, due: int) -> None:
    """The first pending write-back is complete before instruction `due`."""
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
def _finish_write_back(tables: Tables, state: State, owner: int, t: int) -> None:
    """Makes instruction `t` wait until the pending write-back of `owner` is out."""
    while state.buffer[owner, S_WRITE_BACK] >= 0:
        _wait(tables, state, t, state.queue_s[state.counters[C_QUEUE_HEAD]])
        _pop_write_back(tables, state, t)


@njit(cache=True, forceinline=True)
def _finish_instruction(tables: Tables, state: State, t: int) -> None:
    """All accesses of instruction `t` are decided: its idle HBM time is known, and write-backs take theirs first."""
    idle = idle_seconds(tables, t, state.step_f[t, D_FAST], state.step[t, D_KEY], state.step_f[t, D_SAVING])
    if tables.instruction[t, I_WRITES_OUT]:
        _write_out(tables, state, t)
    state.step_f[t, D_FREE] = _drain(tables, state, t, t + 1, idle)
    pending = state.counters[C_QUEUE_TAIL] - state.counters[C_QUEUE_HEAD]
    most = 0 if tables.instruction[t + 1, I_DRAIN] else tables.limits[L_WRITE_BACKS]
    while pending > most or (pending > 0 and _is_due(state, t + 1)):
        _wait_once(tables, state, t + 1, state.queue_s[state.counters[C_QUEUE_HEAD]])
        _pop_write_back(tables, state, t + 1)
        pending -= 1
    cross = state.counters[C_CROSS]
    if cross >= 0 and t + 1 == tables.limits[L_INSTRUCTIONS]:
        if state.buffer[cross, S_RESIDENT]:
            _end_residency(state, cross, t)
        else:
            _refetch(tables, state, cross)
    elif cross >= 0 and t + 2 == tables.limits[L_INSTRUCTIONS] and not state.buffer[cross, S_RESIDENT]:
        for slot in range(state.counters[C_HOLDERS]):  # at the latest now its room must become free again
            if overlap(tables, state, cross, state.holders[slot]):
                _finish_write_back(tables, state, state.holders[slot], t + 1)
    # Nothing wants these any more: their room is free from the next instruction on.
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
            _end_residency(state, owner, state.buffer[owner, S_RELEASE])
        else:
            slot += 1


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


@njit(cache=True)
def own_move(tables: Tables, state: State, legal: np.ndarray) -> int:
    """Returns what the game plays where the move is forced or not worth a decision.

    Near if there is room, without overwriting or waiting for anything; a trivial value that lives on for long is also
    written back, so that its room can be taken: many small sole copies would break up the room of large buffers.
    """
    access = state.counters[C_ACCESS]
    owner = tables.access[access, A_BUFFER]
    if legal[COPY] and legal[NO_COPY]:
        last = tables.access[tables.buffer[owner, B_LAST], A_INSTRUCTION]
        if last - tables.access[access, A_INSTRUCTION] > _LONG_LIFE:
            return COPY
    return NO_COPY if legal[NO_COPY] else (COPY if legal[COPY] else DROP)


@njit(cache=True)
def advance(tables: Tables, state: State, legal: np.ndarray) -> bool:
    """Plays on to the next access with a choice and fills `legal[3]` for it. Returns False when the game is over."""
    tables, state = unowned(tables), unowned(state)
    while catch_up(tables, state):
        access = state.counters[C_ACCESS]
        choices = legal_moves(tables, state, legal)
        if choices == 0:
            raise AssertionError("mallocGame has no legal move: its invariants are broken")
        if choices > 1 and not tables.buffer[tables.access[access, A_BUFFER], B_TRIVIAL]:
            return True
        play(tables, state, own_move(tables, state, legal))
    return False


@njit(cache=True)
def step_over(tables: Tables, state: State, move: int) -> None:
    """Makes a move at a decision, and does not play on."""
    state.counters[C_DECISIONS] += 1
    play(tables, state, move)


@njit(cache=True)
def step(tables: Tables, state: State, move: int, legal: np.ndarray) -> bool:
    """Makes a move and plays on. Returns False when the game is over."""
    step_over(tables, state, move)
    return advance(tables, state, legal)


@njit(cache=True)
def play_line(tables: Tables, state: State, moves: np.ndarray, legal: np.ndarray, taken: np.ndarray) -> int:
    """Plays a whole game from the start: `moves[k]` at the `k`-th decision, or the first legal one of NoCopy, Drop,
    Copy.

    Returns the number of decisions; `taken` receives the moves made.
    """
    tables, state = unowned(tables), unowned(state)
    reset(tables, state)
    going = advance(tables, state, legal)
    decisions = 0
    while going:
        move = moves[decisions] if decisions < len(moves) else -1
        if move < 0 or not legal[move]:
            move = NO_COPY if legal[NO_COPY] else (DROP if legal[DROP] else COPY)
        taken[decisions] = move
        decisions += 1
        going = step(tables, state, move, legal)
    return decisions
