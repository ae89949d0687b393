"""The observation of a decision: nothing of the future hidden, nothing specific to one program.

One flat float32 vector in parts. Sizes are relative to fast memory, times to the program's mean all-in-HBM instruction
time, so that one network plays every program and target. Quantities of wide range are squashed by `log1p`.

- The grid (`GRID`): fast memory around the current instruction, offset bins by instructions, in two channels: held hard
  (protected), and held softly (may be evicted). Its columns (`OFFSETS`) widen with the distance from the instruction.
- The tracks: live bytes, idle HBM time, prefetches, run time and HBM share of the instruction, per column.
- The buffer at hand, the other accesses of the instruction, the largest residents.
"""

import numpy as np

from ..compiled.kernel import routine
from ..compiled.sorting import first_above, first_at_least
from ..program.program import OPERAND
from .clock import idle_seconds, run_seconds
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


@routine
def _squash(x: float) -> float:
    return np.log1p(x) if x >= 0.0 else -np.log1p(-x)


@routine
def observe(tables: Tables, state: State, options: Options, out: np.ndarray) -> None:
    """Fills `out[OBSERVATION_SIZE]` for the access to decide next, whose `options` `legal_moves` has filled."""
    for k in range(len(out)):
        out[k] = 0.0
    access = state.now.access
    now = tables.access[access].instruction
    _paint_grid(tables, state, now, out)
    position = GRID_SIZE
    _tracks(tables, state, now, out, position)
    position += TRACK_SIZE
    _buffer_at_hand(tables, state, options, access, now, out, position)
    position += HAND_SIZE
    _others(tables, state, access, now, out, position)
    position += OTHER_SIZE
    _holders(tables, state, access, now, out, position)


@routine
def _next_access(tables: Tables, state: State, owner: int, access: int) -> int:
    """Returns the first use of `owner` from `access` on, or -1."""
    last = state.buffer[owner].touched
    following = tables.access[last].next if last >= 0 else -1
    while following >= 0 and following < access:
        following = tables.access[following].next
    return following


@routine
def _paint(edges: np.ndarray, low: float, high: float, first: int, last: int, channel: int) -> None:
    """Adds coverage of rows `low..high` where columns `first..last` begin, and takes it off where they end."""
    if first > last:
        return
    for row in range(int(low), min(ROWS, int(np.ceil(high)))):
        covered = min(high, row + 1.0) - max(low, float(row))
        edges[row, first, channel] += covered
        edges[row, last + 1, channel] -= covered


@routine
def _paint_grid(tables: Tables, state: State, now: int, out: np.ndarray) -> None:
    """Fills the grid."""
    scale = ROWS / tables.limits.fast_bytes
    edges = np.zeros((ROWS, COLUMNS + 1, CHANNELS))
    for slot in range(state.now.holders):
        owner = state.holders[slot].buffer
        low = state.buffer[owner].offset * scale
        high = low + tables.buffer[owner].aligned * scale
        wanted_until = max(now, tables.access[tables.buffer[owner].last].instruction)
        if owner == state.now.cross:
            wanted_until = tables.limits.instructions
        begin = first_at_least(_OFFSETS, state.buffer[owner].start - now)
        end = first_above(_OFFSETS, wanted_until - now) - 1
        hard_end = min(end, first_above(_OFFSETS, state.buffer[owner].release - now) - 1)
        _paint(edges, low, high, begin, hard_end, 0)
        _paint(edges, low, high, max(begin, hard_end + 1), end, 1)
    # Residencies that have ended block the windows that reach back to them.
    for column in range(_NOW):
        for t in range(max(0, now + _OFFSETS[column]), max(0, now + _OFFSETS[column + 1])):
            ended = state.step[t].ended
            while ended >= 0:
                low = state.residency[ended].offset * scale
                high = low + tables.buffer[state.residency[ended].buffer].aligned * scale
                _paint(edges, low, high, column, column, 0)
                ended = state.residency[ended].next
    for row in range(ROWS):
        for channel in range(CHANNELS):
            covered = 0.0
            for column in range(COLUMNS):
                covered += edges[row, column, channel]
                out[(row * COLUMNS + column) * CHANNELS + channel] = max(0.0, covered)


@routine
def _tracks(tables: Tables, state: State, now: int, out: np.ndarray, at: int) -> None:
    """Fills the tracks, from `out[at]` on."""
    mean = tables.rates.mean_s
    steps = tables.limits.instructions
    for column in range(COLUMNS):
        t = now + _OFFSETS[column]
        if t < 0 or t >= steps:
            continue
        run = tables.instruction[t].all_hbm_s
        hbm = tables.instruction[t].bytes / tables.rates.hbm
        out[at + column] = tables.instruction[t].live
        free = state.step[t].idle_s if t < now else idle_seconds(tables, t, 0.0, tables.instruction[t].key, 0.0)
        out[at + COLUMNS + column] = _squash(free / mean)
        out[at + 2 * COLUMNS + column] = _squash(state.step[t].prefetches)
        out[at + 3 * COLUMNS + column] = _squash(run / mean)
        out[at + 4 * COLUMNS + column] = min(1.0, hbm / run) if run > 0.0 else 0.0


@routine
def _buffer_at_hand(
    tables: Tables, state: State, options: Options, access: int, now: int, out: np.ndarray, at: int
) -> None:
    """Fills the part of the buffer at hand: size, benefits, state, legal moves, plan, next uses."""
    mean, fast_bytes = tables.rates.mean_s, tables.limits.fast_bytes
    owner = tables.access[access].buffer
    weight = tables.instruction[now].weight
    need = tables.buffer[owner].size / tables.rates.hbm
    fast_now, key, saving = state.step[now].fast_bytes, state.step[now].key, state.step[now].saving_s
    saves_now = run_seconds(tables, now, fast_now, key, saving) - run_seconds(
        tables,
        now,
        fast_now + tables.access[access].bytes,
        key ^ tables.access[access].key,
        saving + tables.access[access].saving_s,
    )
    held, soft = 0, 0
    for slot in range(state.now.holders):
        other = state.holders[slot].buffer
        if state.buffer[other].release >= now:
            held += tables.buffer[other].aligned
        else:
            soft += tables.buffer[other].aligned
    pending = 0.0
    for k in range(state.now.queue_head, state.now.queue_tail):
        pending += state.queue[k].seconds
    uses = 0
    following = tables.access[access].next
    while following >= 0 and uses < 32:
        uses += 1
        following = tables.access[following].next

    out[at + 0] = tables.buffer[owner].aligned / fast_bytes
    out[at + 1] = _squash(need / mean)
    out[at + 2] = _squash(saves_now * weight / mean)
    out[at + 3] = _squash(tables.access[access].benefit / mean)
    out[at + 4] = _squash(tables.access[access].ahead / mean)
    out[at + 5] = _squash(tables.access[access].ahead / need) if need > 0.0 else 0.0
    out[at + 6] = 0.0 if tables.access[access].kind == OPERAND else 1.0
    out[at + 7] = 1.0 if tables.access[access].tied_to >= 0 else 0.0
    out[at + 8] = tables.buffer[owner].is_output
    out[at + 9] = tables.buffer[owner].is_input
    out[at + 10] = 1.0 if tables.buffer[owner].last_result <= access else 0.0
    out[at + 11] = state.buffer[owner].resident
    out[at + 12] = 1.0 if state.buffer[owner].valid <= now else 0.0
    out[at + 13] = _squash(uses)
    for move in range(3):
        out[at + 14 + move] = 1.0 if options.legal[move] else 0.0
    if options.offset >= 0:
        out[at + 17] = 1.0
        out[at + 18] = _squash(options.stall_s / mean)
        out[at + 19] = _squash(options.victims)
        if tables.access[access].kind == OPERAND:
            out[at + 20] = _squash(now - options.start)
    out[at + 21] = min(1.0, options.supply_s / need) if need > 0.0 else 1.0
    out[at + 22] = _squash(pending / mean)
    out[at + 23] = held / fast_bytes
    out[at + 24] = soft / fast_bytes
    out[at + 25] = access / len(tables.access)
    following = tables.access[access].next
    for use in range(USES_AHEAD):
        if following < 0:
            break
        t = tables.access[following].instruction
        clock = tables.instruction[t].clock_s - tables.instruction[now].clock_s
        out[at + 26 + 3 * use] = _squash(t - now)
        out[at + 27 + 3 * use] = _squash(clock / mean)
        out[at + 28 + 3 * use] = _squash(tables.access[following].benefit / mean)
        following = tables.access[following].next


@routine
def _others(tables: Tables, state: State, access: int, now: int, out: np.ndarray, at: int) -> None:
    """Fills the part of the other accesses of instruction `now`."""
    row = 0
    for other in range(tables.instruction[now].first_access, tables.instruction[now + 1].first_access):
        owner = tables.access[other].buffer
        if other == access or not tables.buffer[owner].played:
            continue
        if row == OTHERS:
            break
        out[at + 6 * row] = tables.buffer[owner].aligned / tables.limits.fast_bytes
        out[at + 6 * row + 1] = _squash(tables.access[other].benefit / tables.rates.mean_s)
        out[at + 6 * row + 2] = 1.0 if other < access else 0.0
        out[at + 6 * row + 3] = 1.0 if other < access and state.access_fast[other] else 0.0
        out[at + 6 * row + 4] = 0.0 if tables.access[other].kind == OPERAND else 1.0
        out[at + 6 * row + 5] = state.buffer[owner].resident
        row += 1


@routine
def _holders(tables: Tables, state: State, access: int, now: int, out: np.ndarray, at: int) -> None:
    """Fills the part of the largest residents."""
    largest = np.empty(HOLDERS, np.int64)
    sizes = np.empty(HOLDERS, np.int64)
    rows = 0
    for slot in range(state.now.holders):
        owner = state.holders[slot].buffer
        size = tables.buffer[owner].aligned
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
        out[at + 5 * row] = size / tables.limits.fast_bytes
        out[at + 5 * row + 4] = 1.0 if state.buffer[owner].release >= now else 0.0
        following = _next_access(tables, state, owner, access)
        if following >= 0:
            t = tables.access[following].instruction
            clock = tables.instruction[t].clock_s - tables.instruction[now].clock_s
            out[at + 5 * row + 1] = _squash(clock / tables.rates.mean_s)
            out[at + 5 * row + 2] = _squash(tables.access[following].benefit / tables.rates.mean_s)
            out[at + 5 * row + 3] = _squash(tables.access[following].ahead / tables.rates.mean_s)
