"""The observation of a decision: nothing of the future hidden, nothing specific to one program.

One flat float32 vector in parts. Sizes are relative to fast memory, times to the program's mean all-in-HBM instruction
time, so that one network plays every program and target. Quantities of wide range are squashed by `log1p`.

- The grid (`GRID`): fast memory around the current instruction, offset bins by instructions, in two channels: held hard
  (protected), and held softly (may be evicted). Its columns (`OFFSETS`) widen with the distance from the instruction.
- The tracks: live bytes, idle HBM time, prefetches, run time and HBM share of the instruction, per column.
- The buffer at hand, the other accesses of the instruction, the largest residents.
"""

import numpy as np
from numba import njit

from ..compiled.sorting import first_above, first_at_least
from ..compiled.unowned import unowned
from ..program.program import OPERAND
from .clock import idle_seconds, run_seconds
from .columns import (
    A_BUFFER,
    A_INSTRUCTION,
    A_KEY,
    A_KIND,
    A_NEXT,
    A_TIED_TO,
    AF_AHEAD,
    AF_BENEFIT,
    AF_BYTES,
    AF_SAVING,
    B_ALIGNED,
    B_INPUT,
    B_LAST,
    B_LAST_RESULT,
    B_OUTPUT,
    B_PLAYED,
    B_SIZE,
    C_ACCESS,
    C_CROSS,
    C_HOLDERS,
    C_QUEUE_HEAD,
    C_QUEUE_TAIL,
    D_ENDED,
    D_FAST,
    D_FREE,
    D_KEY,
    D_PREFETCHES,
    D_SAVING,
    I_FIRST_ACCESS,
    I_KEY,
    IF_BYTES,
    IF_CLOCK,
    IF_HBM_RUN,
    IF_LIVE,
    IF_WEIGHT,
    L_FAST,
    L_INSTRUCTIONS,
    R_HBM,
    R_MEAN,
    RESIDENCY_BUFFER,
    RESIDENCY_NEXT,
    RESIDENCY_OFFSET,
    S_OFFSET,
    S_RELEASE,
    S_RESIDENT,
    S_START,
    S_TOUCH,
    S_VALID,
)
from .options import Options
from .state import State
from .tables import Tables

ROWS = 16
# The instruction of each column, relative to the current one.
OFFSETS = (-24, -12, -6, -3, -2, -1, 0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384)
COLUMNS = len(OFFSETS)
CHANNELS = 2
GRID = (ROWS, COLUMNS, CHANNELS)
GRID_SIZE = ROWS * COLUMNS * CHANNELS

# Tracks, per column: live bytes, idle HBM seconds, prefetches in flight, run seconds, the share that HBM takes of them.
TRACKS = 5
TRACK_SIZE = COLUMNS * TRACKS
# The buffer at hand: see `_buffer_at_hand`.
USES_AHEAD = 4
HAND_SIZE = 26 + 3 * USES_AHEAD
# Other accesses of the instruction: size, benefit, decided, decided fast, is a result, buffer resident.
OTHERS = 6
OTHER_SIZE = 6 * OTHERS
# The largest residents: size, seconds to the next use, its benefit, the sum of the benefits ahead, protected.
HOLDERS = 8
HOLDER_SIZE = 5 * HOLDERS

OBSERVATION_SIZE = GRID_SIZE + TRACK_SIZE + HAND_SIZE + OTHER_SIZE + HOLDER_SIZE
_OFFSETS = np.array(OFFSETS, np.int64)
_NOW = OFFSETS.index(0)


@njit(cache=True)
def _squash(x: float) -> float:
    return np.log1p(x) if x >= 0.0 else -np.log1p(-x)


@njit(cache=True)
def observe(tables: Tables, state: State, options: Options, out: np.ndarray) -> None:
    """Fills `out[OBSERVATION_SIZE]` for the access to decide next, whose `options` `legal_moves` has filled."""
    tables, state = unowned(tables), unowned(state)
    out[:] = 0.0
    access = state.counters[C_ACCESS]
    now = tables.access[access, A_INSTRUCTION]
    _paint_grid(tables, state, now, out)
    position = GRID_SIZE
    _tracks(tables, state, now, out[position : position + TRACK_SIZE])
    position += TRACK_SIZE
    _buffer_at_hand(tables, state, options, access, now, out[position : position + HAND_SIZE])
    position += HAND_SIZE
    _others(tables, state, access, now, out[position : position + OTHER_SIZE])
    position += OTHER_SIZE
    _holders(tables, state, access, now, out[position:])


@njit(cache=True)
def _next_access(tables: Tables, state: State, owner: int, access: int) -> int:
    """Returns the first use of `owner` from `access` on, or -1."""
    last = state.buffer[owner, S_TOUCH]
    following = tables.access[last, A_NEXT] if last >= 0 else -1
    while following >= 0 and following < access:
        following = tables.access[following, A_NEXT]
    return following


@njit(cache=True)
def _paint(edges: np.ndarray, low: float, high: float, first: int, last: int, channel: int) -> None:
    """Adds coverage of rows `low..high` where columns `first..last` begin, and takes it off where they end."""
    if first > last:
        return
    for row in range(int(low), min(ROWS, int(np.ceil(high)))):
        covered = min(high, row + 1.0) - max(low, float(row))
        edges[row, first, channel] += covered
        edges[row, last + 1, channel] -= covered


@njit(cache=True)
def _paint_grid(tables: Tables, state: State, now: int, out: np.ndarray) -> None:
    """Fills the grid."""
    scale = ROWS / tables.limits[L_FAST]
    edges = np.zeros((ROWS, COLUMNS + 1, CHANNELS))
    for slot in range(state.counters[C_HOLDERS]):
        owner = state.holders[slot]
        low = state.buffer[owner, S_OFFSET] * scale
        high = low + tables.buffer[owner, B_ALIGNED] * scale
        wanted_until = max(now, tables.access[tables.buffer[owner, B_LAST], A_INSTRUCTION])
        if owner == state.counters[C_CROSS]:
            wanted_until = tables.limits[L_INSTRUCTIONS]
        begin = first_at_least(_OFFSETS, state.buffer[owner, S_START] - now)
        end = first_above(_OFFSETS, wanted_until - now) - 1
        hard_end = min(end, first_above(_OFFSETS, state.buffer[owner, S_RELEASE] - now) - 1)
        _paint(edges, low, high, begin, hard_end, 0)
        _paint(edges, low, high, max(begin, hard_end + 1), end, 1)
    # Residencies that have ended block the windows that reach back to them.
    for column in range(_NOW):
        for t in range(max(0, now + _OFFSETS[column]), max(0, now + _OFFSETS[column + 1])):
            ended = state.step[t, D_ENDED]
            while ended >= 0:
                low = state.residency[ended, RESIDENCY_OFFSET] * scale
                high = low + tables.buffer[state.residency[ended, RESIDENCY_BUFFER], B_ALIGNED] * scale
                _paint(edges, low, high, column, column, 0)
                ended = state.residency[ended, RESIDENCY_NEXT]
    for row in range(ROWS):
        for channel in range(CHANNELS):
            covered = 0.0
            for column in range(COLUMNS):
                covered += edges[row, column, channel]
                out[(row * COLUMNS + column) * CHANNELS + channel] = max(0.0, covered)


@njit(cache=True)
def _tracks(tables: Tables, state: State, now: int, out: np.ndarray) -> None:
    """Fills the tracks."""
    mean = tables.rates[R_MEAN]
    steps = tables.limits[L_INSTRUCTIONS]
    for column in range(COLUMNS):
        t = now + _OFFSETS[column]
        if t < 0 or t >= steps:
            continue
        run = tables.instruction_f[t, IF_HBM_RUN]
        hbm = tables.instruction_f[t, IF_BYTES] / tables.rates[R_HBM]
        out[column] = tables.instruction_f[t, IF_LIVE]
        free = state.step_f[t, D_FREE] if t < now else idle_seconds(tables, t, 0.0, tables.instruction[t, I_KEY], 0.0)
        out[COLUMNS + column] = _squash(free / mean)
        out[2 * COLUMNS + column] = _squash(state.step[t, D_PREFETCHES])
        out[3 * COLUMNS + column] = _squash(run / mean)
        out[4 * COLUMNS + column] = min(1.0, hbm / run) if run > 0.0 else 0.0


@njit(cache=True)
def _buffer_at_hand(tables: Tables, state: State, options: Options, access: int, now: int, out: np.ndarray) -> None:
    """Fills the part of the buffer at hand: size, benefits, state, legal moves, plan, next uses."""
    mean, fast_bytes = tables.rates[R_MEAN], tables.limits[L_FAST]
    owner = tables.access[access, A_BUFFER]
    weight = tables.instruction_f[now, IF_WEIGHT]
    need = tables.buffer[owner, B_SIZE] / tables.rates[R_HBM]
    fast_now, key, saving = state.step_f[now, D_FAST], state.step[now, D_KEY], state.step_f[now, D_SAVING]
    saves_now = run_seconds(tables, now, fast_now, key, saving) - run_seconds(
        tables,
        now,
        fast_now + tables.access_f[access, AF_BYTES],
        key ^ tables.access[access, A_KEY],
        saving + tables.access_f[access, AF_SAVING],
    )
    held, soft = 0, 0
    for slot in range(state.counters[C_HOLDERS]):
        other = state.holders[slot]
        if state.buffer[other, S_RELEASE] >= now:
            held += tables.buffer[other, B_ALIGNED]
        else:
            soft += tables.buffer[other, B_ALIGNED]
    pending = 0.0
    for k in range(state.counters[C_QUEUE_HEAD], state.counters[C_QUEUE_TAIL]):
        pending += state.queue_s[k]
    uses = 0
    following = tables.access[access, A_NEXT]
    while following >= 0 and uses < 32:
        uses += 1
        following = tables.access[following, A_NEXT]

    out[0] = tables.buffer[owner, B_ALIGNED] / fast_bytes
    out[1] = _squash(need / mean)
    out[2] = _squash(saves_now * weight / mean)
    out[3] = _squash(tables.access_f[access, AF_BENEFIT] / mean)
    out[4] = _squash(tables.access_f[access, AF_AHEAD] / mean)
    out[5] = _squash(tables.access_f[access, AF_AHEAD] / need) if need > 0.0 else 0.0
    out[6] = 0.0 if tables.access[access, A_KIND] == OPERAND else 1.0
    out[7] = 1.0 if tables.access[access, A_TIED_TO] >= 0 else 0.0
    out[8] = tables.buffer[owner, B_OUTPUT]
    out[9] = tables.buffer[owner, B_INPUT]
    out[10] = 1.0 if tables.buffer[owner, B_LAST_RESULT] <= access else 0.0
    out[11] = state.buffer[owner, S_RESIDENT]
    out[12] = 1.0 if state.buffer[owner, S_VALID] <= now else 0.0
    out[13] = _squash(uses)
    for move in range(3):
        out[14 + move] = 1.0 if options.legal[move] else 0.0
    if options.offset >= 0:
        out[17] = 1.0
        out[18] = _squash(options.stall_s / mean)
        out[19] = _squash(options.victims)
        if tables.access[access, A_KIND] == OPERAND:
            out[20] = _squash(now - options.start)
    out[21] = min(1.0, options.supply_s / need) if need > 0.0 else 1.0
    out[22] = _squash(pending / mean)
    out[23] = held / fast_bytes
    out[24] = soft / fast_bytes
    out[25] = access / len(tables.access)
    following = tables.access[access, A_NEXT]
    for use in range(USES_AHEAD):
        if following < 0:
            break
        t = tables.access[following, A_INSTRUCTION]
        clock = tables.instruction_f[t, IF_CLOCK] - tables.instruction_f[now, IF_CLOCK]
        out[26 + 3 * use] = _squash(t - now)
        out[27 + 3 * use] = _squash(clock / mean)
        out[28 + 3 * use] = _squash(tables.access_f[following, AF_BENEFIT] / mean)
        following = tables.access[following, A_NEXT]


@njit(cache=True)
def _others(tables: Tables, state: State, access: int, now: int, out: np.ndarray) -> None:
    """Fills the part of the other accesses of instruction `now`."""
    row = 0
    for other in range(tables.instruction[now, I_FIRST_ACCESS], tables.instruction[now + 1, I_FIRST_ACCESS]):
        owner = tables.access[other, A_BUFFER]
        if other == access or not tables.buffer[owner, B_PLAYED]:
            continue
        if row == OTHERS:
            break
        out[6 * row] = tables.buffer[owner, B_ALIGNED] / tables.limits[L_FAST]
        out[6 * row + 1] = _squash(tables.access_f[other, AF_BENEFIT] / tables.rates[R_MEAN])
        out[6 * row + 2] = 1.0 if other < access else 0.0
        out[6 * row + 3] = 1.0 if other < access and state.access_fast[other] else 0.0
        out[6 * row + 4] = 0.0 if tables.access[other, A_KIND] == OPERAND else 1.0
        out[6 * row + 5] = state.buffer[owner, S_RESIDENT]
        row += 1


@njit(cache=True)
def _holders(tables: Tables, state: State, access: int, now: int, out: np.ndarray) -> None:
    """Fills the part of the largest residents."""
    largest = np.empty(HOLDERS, np.int64)
    sizes = np.empty(HOLDERS, np.int64)
    rows = 0
    for slot in range(state.counters[C_HOLDERS]):
        owner = state.holders[slot]
        size = tables.buffer[owner, B_ALIGNED]
        if rows == HOLDERS and size <= sizes[rows - 1]:
            continue
        rows = min(rows + 1, HOLDERS)
        row = rows - 1
        while row > 0 and sizes[row - 1] < size:
            largest[row], sizes[row] = largest[row - 1], sizes[row - 1]
            row -= 1
        largest[row], sizes[row] = owner, size
    for row in range(rows):
        owner, size = largest[row], sizes[row]
        out[5 * row] = size / tables.limits[L_FAST]
        out[5 * row + 4] = 1.0 if state.buffer[owner, S_RELEASE] >= now else 0.0
        following = _next_access(tables, state, owner, access)
        if following >= 0:
            t = tables.access[following, A_INSTRUCTION]
            clock = tables.instruction_f[t, IF_CLOCK] - tables.instruction_f[now, IF_CLOCK]
            out[5 * row + 1] = _squash(clock / tables.rates[R_MEAN])
            out[5 * row + 2] = _squash(tables.access_f[following, AF_BENEFIT] / tables.rates[R_MEAN])
            out[5 * row + 3] = _squash(tables.access_f[following, AF_AHEAD] / tables.rates[R_MEAN])
