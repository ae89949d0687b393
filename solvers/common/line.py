"""A line of play: the moves of a whole game, from which other games branch off at any decision and return to it.

Shapes: `D` decisions, `A` accesses.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ...env.compiled.block import copy_block
from ...env.compiled.unowned import unowned
from ...env.game.columns import C_ACCESS
from ...env.game.game import MallocGame
from ...env.game.instructions import catch_up
from ...env.game.options import Options
from ...env.game.play import play
from ...env.game.rules import advance, reset, step
from ...env.game.state import State
from ...env.game.tables import Tables
from .plan import choose, plan_of_line

# States kept along a line.
_CHECKPOINTS = 24


class LineOfPlay:
    """The moves of a whole game, with states kept along the way.

    Attributes:
      actions: `[D]` the moves.
      preferences: `[A]` the plan that leads to the same game (`plan.py`), and on from games that branched off.
      where: `[D]` the accesses that the moves decide.
      latency_s: judged seconds of the game.
    """

    def __init__(self, game: MallocGame, actions: NDArray[np.int64], latency_s: float) -> None:
        """Plays `actions` in `game`, whose state is undefined afterwards."""
        self.actions = np.asarray(actions, np.int64)
        self.latency_s = latency_s
        self.preferences = np.zeros(len(game.tables.access), np.int8)
        count = len(self.actions)
        plan_of_line(game.tables, game.state, game.options, self.actions, count, self.preferences)
        self._points = np.unique(np.linspace(0, count, _CHECKPOINTS, endpoint=False).astype(np.int64))
        self.where = np.zeros(count, np.int64)
        self._bank = np.zeros((len(self._points), len(game.block)), np.uint8)
        _keep(game.tables, game.state, game.options, game.block, self.actions, self.where, self._points, self._bank)

    def begin(self, game: MallocGame, decision: int) -> None:
        """Brings `game`, of the same program and rules, to the line's state before a decision."""
        point = int(np.searchsorted(self._points, decision, side="right")) - 1
        game.block[:] = self._bank[point]
        passed = int(self._points[point])
        _forward(game.tables, game.state, game.options, self.actions[passed:decision])
        game.go_to(self.actions[:decision])


def nearest_move(game: MallocGame, preferences: NDArray[np.int8]) -> int:
    """Returns the legal move nearest to `preferences[A]` at the decision of `game`."""
    return int(choose(game.tables, game.state, game.options, preferences[game.access]))


def play_to_end(game: MallocGame, preferences: NDArray[np.int8]) -> None:
    """Plays `game` to its end by `preferences[A]`, and records its moves."""
    while not game.done:
        game.step_unpaid(nearest_move(game, preferences))


@njit(cache=True, nogil=True)
def _keep(
    tables: Tables,
    state: State,
    options: Options,
    block: np.ndarray,
    actions: np.ndarray,
    where: np.ndarray,
    points: np.ndarray,
    bank: np.ndarray,
) -> None:
    """Plays `actions` from the beginning; fills `where`, and `bank` with the states before the decisions `points`."""
    tables, state = unowned(tables), unowned(state)
    reset(tables, state)
    point = 0
    going = advance(tables, state, options)
    decision = 0
    while going:
        where[decision] = state.counters[C_ACCESS]
        if point < len(points) and decision == points[point]:
            copy_block(block, bank[point])
            point += 1
        going = step(tables, state, options, actions[decision])
        decision += 1


@njit(cache=True, nogil=True)
def _forward(tables: Tables, state: State, options: Options, actions: np.ndarray) -> None:
    """Plays legal moves. The state may be a kept one, so `options` are filled anew first."""
    tables, state = unowned(tables), unowned(state)
    if len(actions) > 0:
        advance(tables, state, options)
    for action in actions:
        step(tables, state, options, action)


@njit(cache=True, nogil=True)
def rollout(tables: Tables, state: State, options: Options, following: np.ndarray, preferences: np.ndarray) -> None:
    """Plays to the end by `preferences[A]`, as `play_to_end` does, without recording decisions: twice as fast."""
    tables, state = unowned(tables), unowned(state)
    while True:
        state.counters[C_ACCESS] = following[state.counters[C_ACCESS]]
        if not catch_up(tables, state):
            return
        play(tables, state, options, choose(tables, state, options, preferences[state.counters[C_ACCESS]]))
