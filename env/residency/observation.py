"""The observation of a position: features of every stay, in compiled code, in time linear in the program.

An access is described by features that no game changes (`static.py`) and by what became of it in the current game:
whether it is fast, what it saves or would save there, the memory that is free around it, the HBM time left idle before
it. A stay is described by the mean over its accesses, by its first and by its last one, and by its own size and length.
"""

import numpy as np
from numpy.typing import NDArray

from ..compiled.kernel import kernel, routine, vector
from ..compiled.struct import Struct, array, part, rows
from ..game.clock import run_seconds
from ..game.moves import COPY, DROP
from ..game.plan import CROSS_PROGRAM_FETCH, TO_THE_END, WAIT
from ..program.program import OPERAND
from .changes import KINDS, PLACEMENTS
from .position import Board, Position
from .static import LIMIT, STATIC_FEATURES, static_features

PLAYED_FEATURES = 22
ACCESS_FEATURES = STATIC_FEATURES + PLAYED_FEATURES
_OWN_FEATURES = KINDS + 3 + PLACEMENTS
STAY_FEATURES = 3 * ACCESS_FEATURES + _OWN_FEATURES
# The first of the features that give, by placement, the share of its accesses that a change changes.
CHANGED_SHARE = STAY_FEATURES - PLACEMENTS
_NO_CHANGES = np.zeros(0, np.int64)


class Desk(Struct):
    """Space for observations. Shapes: `M` accesses of stays, `F` features of an access, `S` stays, `D` of a stay, `T`
    instructions, `L` levels of the table of minima.

    Attributes:
      access: `[M, F]` features of the accesses, in the order of `Changes.member`.
      stay: `[S, D]` features of the stays.
      free: `[L, T]` least share of fast memory that is free in the `2 ** level` instructions from each one on.
      idle: `[T + 1]` seconds that HBM is idle before each instruction.
      sums: `[F]`.
    """

    access: NDArray[np.float32] = array(np.float32, 2)
    stay: NDArray[np.float32] = array(np.float32, 2)
    free: NDArray[np.float32] = array(np.float32, 2)
    idle: NDArray[np.float64] = rows(np.float64)
    sums: NDArray[np.float64] = rows(np.float64)


class View(Struct):
    """A position and the space for its observation."""

    board: Board = part(Board)
    desk: Desk = part(Desk)


class Observer:
    """Observes positions of one program on one set of tables.

    Attributes:
      view: the position and the observation, for compiled code.
    """

    def __init__(self, position: Position) -> None:
        tables, changes = position.board.game.tables, position.changes
        steps = len(tables.instruction) - 1
        members = len(changes.member)
        levels = max(1, int(np.ceil(np.log2(steps + 1))) + 1)
        self._desk = Desk(
            access=np.zeros((members, ACCESS_FEATURES), np.float32),
            stay=np.zeros((len(changes.first), STAY_FEATURES), np.float32),
            free=np.zeros((levels, steps), np.float32),
            idle=np.zeros(steps + 1),
            sums=np.zeros(ACCESS_FEATURES),
        )
        self._desk.access[:, :STATIC_FEATURES] = static_features(tables, changes.member)
        self.view = View(board=position.board, desk=self._desk)

    def observe(self) -> NDArray[np.float32]:
        """Plays the current game of the position once more and returns `[S, STAY_FEATURES]`, which the next call
        overwrites."""
        look(self.view, False, True, _NO_CHANGES)
        return self.stays

    @property
    def stays(self) -> NDArray[np.float32]:
        """`[S, STAY_FEATURES]` as described last."""
        return self._desk.stay

    @property
    def changing(self) -> NDArray[np.bool_]:
        """`[C]` whether a change places any access of its stay anew, as described last."""
        changes = self.view.board.changes
        return np.asarray(self.stays[changes.stay, CHANGED_SHARE + changes.placement] > 0.0)


@kernel(View, bool, bool, vector(np.int64))
def look(view: View, finished: bool, every: bool, changes: np.ndarray) -> None:
    """Describes `every` stay, or those of `changes[K]`, numbers or -1 for none.

    `finished` says that the state of the game is the end of the current one; else that is played once more.
    """
    board, desk = view.board, view.desk
    game, current, stays = board.game, board.current, board.changes
    if not finished:
        game.reset(game.tables, game.state)
        game.play_until(game.tables, game.state, game.options, current.plan, current.trial_moves, TO_THE_END)
    _survey(board, desk)
    unit = _mean_benefit(board)
    if every:
        _describe_accesses(board, desk, unit, 0, len(stays.member))
        for stay in range(len(stays.first)):
            _describe_stay(board, desk, stay)
        return
    for k in range(len(changes)):
        if changes[k] >= 0:
            stay = stays.stay[changes[k]]
            first = stays.first[stay]
            _describe_accesses(board, desk, unit, first, first + stays.count[stay])
            _describe_stay(board, desk, stay)


@routine
def _survey(board: Board, desk: Desk) -> None:
    """Fills `free` and `idle` from the finished game."""
    tables, state = board.game.tables, board.game.state
    steps = tables.limits.instructions
    free = desk.free
    for t in range(steps):
        free[0, t] = 0.0
    capacity = float(tables.limits.fast_bytes)
    for row in range(state.now.residencies):
        share = np.float32(tables.buffer[state.residency[row].buffer].aligned / capacity)
        first, last = max(state.residency[row].start, 0), state.residency[row].end
        free[0, first] += share
        if last + 1 < steps:
            free[0, last + 1] -= share
    used = 0.0
    desk.idle[0] = 0.0
    for t in range(steps):
        used += free[0, t]
        free[0, t] = np.float32(1.0 - tables.limits.reserved / capacity - used)
        desk.idle[t + 1] = desk.idle[t] + state.step[t].idle_s
    width = 1
    for level in range(1, len(free)):
        for t in range(steps):
            other = min(t + width, steps - 1)
            free[level, t] = min(free[level - 1, t], free[level - 1, other])
        width *= 2


@routine
def _least_free(desk: Desk, first: int, last: int) -> float:
    """Returns the least share of fast memory that is free from instruction `first` to `last`."""
    level, width = 0, 1
    while 2 * width <= last - first + 1:
        level += 1
        width *= 2
    return min(desk.free[level, first], desk.free[level, last - width + 1])


@routine
def _log(x: float) -> np.float32:
    value = np.log1p(abs(x))
    value = value if x >= 0 else -value
    return np.float32(min(max(value, -LIMIT), LIMIT))


@routine
def _short(x: float, most: float) -> np.float32:
    return np.float32(min(max(x, -most), most))


@routine
def _mean_benefit(board: Board) -> float:
    tables, member = board.game.tables, board.changes.member
    benefits = 0.0
    for k in range(len(member)):
        benefits += max(tables.access[member[k]].benefit, 0.0)
    return benefits / max(len(member), 1) + 1e-30


@routine
def _describe_accesses(board: Board, desk: Desk, unit: float, begin: int, end: int) -> None:
    """Fills the played features of the accesses from `begin` to before `end`; `unit` is their mean benefit."""
    tables, state, changes = board.game.tables, board.game.state, board.changes
    plan, moves, member = board.current.plan, board.current.moves, changes.member
    count = len(member)
    capacity = float(tables.limits.fast_bytes)
    mean_s = tables.rates.mean_s + 1e-30
    for k in range(begin, end):
        access = member[k]
        owner, t = tables.access[access].buffer, tables.access[access].instruction
        is_result = tables.access[access].kind != OPERAND
        before = member[k - 1] if k > 0 and tables.access[member[k - 1]].buffer == owner else -1
        after = member[k + 1] if k + 1 < count and tables.access[member[k + 1]].buffer == owner else -1
        to = t if after < 0 else max(tables.access[after].instruction, t)
        since = t if before < 0 else min(tables.access[before].instruction, t)
        fast = state.access_fast[access] > 0
        next_fast = after >= 0 and state.access_fast[after] > 0
        size = tables.buffer[owner].aligned / capacity
        copy_s = tables.buffer[owner].size / tables.rates.hbm
        around = _least_free(desk, t, to)
        ahead = _least_free(desk, since, t)
        # Seconds that the access saves where it is fast, and would save where it is not, all others as they are.
        step = state.step[t]
        sign = -1.0 if fast else 1.0
        now_s = run_seconds(tables, t, step.fast_bytes, step.key, step.saving_s)
        other_s = run_seconds(
            tables,
            t,
            step.fast_bytes + sign * tables.access[access].bytes,
            step.key ^ tables.access[access].key,
            step.saving_s + sign * tables.access[access].saving_s,
        )
        saves_s = sign * (now_s - other_s) * tables.instruction[t].weight
        row, f = desk.access[k], STATIC_FEATURES
        row[f + 0] = fast
        row[f + 1] = next_fast and fast and moves[after] != COPY
        row[f + 2] = plan[access] != DROP
        row[f + 3] = plan[access] == WAIT
        row[f + 4] = plan[access] == CROSS_PROGRAM_FETCH
        row[f + 5] = moves[access] == COPY and is_result
        row[f + 6] = plan[access] == COPY and is_result
        row[f + 7] = moves[access] == COPY and not is_result
        row[f + 8] = plan[access] != DROP and not fast
        row[f + 9] = next_fast
        row[f + 10] = before >= 0 and state.access_fast[before] > 0
        row[f + 11] = _log(10.0 * step.wait_s / mean_s)
        row[f + 12] = _log(3.0 * step.idle_s / mean_s)
        row[f + 13] = _short(desk.free[0, t], 2.0)
        row[f + 14] = _short(around, 2.0)
        row[f + 15] = _short(around - size, 2.0)
        row[f + 16] = around >= size
        row[f + 17] = ahead >= size
        row[f + 18] = _log((desk.idle[to] - desk.idle[t]) / copy_s)
        row[f + 19] = _log((desk.idle[t] - desk.idle[since]) / copy_s)
        row[f + 20] = _log(saves_s / unit)
        row[f + 21] = _short(saves_s / (abs(tables.access[access].benefit) + 0.01 * unit), 3.0)


@routine
def _describe_stay(board: Board, desk: Desk, stay: int) -> None:
    """Fills the features of a stay."""
    tables, changes, plan = board.game.tables, board.changes, board.current.plan
    width = ACCESS_FEATURES
    first, count = changes.first[stay], changes.count[stay]
    for f in range(width):
        desk.sums[f] = 0.0
    for k in range(first, first + count):
        for f in range(width):
            desk.sums[f] += desk.access[k, f]
    row = desk.stay[stay]
    for f in range(width):
        row[f] = np.float32(desk.sums[f] / count)
        row[width + f] = desk.access[first, f]
        row[2 * width + f] = desk.access[first + count - 1, f]
    own = 3 * width
    for f in range(KINDS):
        row[own + f] = changes.kind[stay] == f
    begin = tables.access[changes.member[first]].instruction
    end = tables.access[changes.member[first + count - 1]].instruction
    row[own + KINDS] = np.log(count)
    row[own + KINDS + 1] = changes.has_result[stay]
    row[own + KINDS + 2] = _log(100.0 * max(0, end - begin) / tables.limits.instructions)
    # The share of its accesses whose preference each placement would change.
    for placement in range(PLACEMENTS):
        differing = 0
        for k in range(first, first + count):
            access = changes.member[k]
            wanted = changes.result[placement]
            if tables.access[access].kind == OPERAND:
                wanted = changes.operand[placement]
            if plan[access] != wanted:
                differing += 1
        row[own + KINDS + 3 + placement] = differing / count
