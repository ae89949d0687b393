"""A line of play: the moves of a whole game, from which other games branch off at any decision and return to it.

Shapes: `D` decisions, `A` accesses.
"""

import numpy as np
from numpy.typing import NDArray

from ...env.compiled.block import copy_elements
from ...env.compiled.kernel import kernel, vector
from ...env.game.game import MallocGame
from ...env.game.kernels import CompiledGame
from ...env.game.moves import NO_MOVE
from ...env.game.plan import nearest, plan_of_line

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
        compiled = game.compiled
        plan_of_line(compiled, self.actions, count, self.preferences)
        self._points = np.unique(np.linspace(0, count, _CHECKPOINTS, endpoint=False).astype(np.int64))
        self.where = np.zeros(count, np.int64)
        self._bank = np.zeros((len(self._points), len(game.block)), np.uint8)
        _keep(compiled, self.actions, self.where, self._points, self._bank.reshape(-1))

    def begin(self, game: MallocGame, decision: int) -> None:
        """Brings `game`, of the same program and rules, to the line's state before a decision."""
        point = int(np.searchsorted(self._points, decision, side="right")) - 1
        game.block[:] = self._bank[point]
        passed = int(self._points[point])
        _forward(game.compiled, self.actions, passed, decision)
        game.go_to(self.actions[:decision])


def nearest_move(game: MallocGame, preferences: NDArray[np.int8]) -> int:
    """Returns the legal move nearest to `preferences[A]` at the decision of `game`."""
    return int(nearest(game.tables, game.state, game.options, int(preferences[game.access])))


def play_to_end(game: MallocGame, preferences: NDArray[np.int8]) -> None:
    """Plays `game` to its end by `preferences[A]`, and records its moves."""
    while not game.done:
        game.step_unpaid(nearest_move(game, preferences))


@kernel(CompiledGame, vector(np.int64), vector(np.int64), vector(np.int64), vector(np.uint8))
def _keep(game: CompiledGame, actions: np.ndarray, where: np.ndarray, points: np.ndarray, bank: np.ndarray) -> None:
    """Plays `actions` from the beginning; fills `where`, and `bank` with the states before the decisions `points`."""
    tables, state, options = game.tables, game.state, game.options
    game.reset(tables, state)
    size = len(game.block)
    point, decision, move = 0, 0, NO_MOVE
    while game.advance(tables, state, options, move) > 0:
        where[decision] = state.now.access
        if point < len(points) and decision == points[point]:
            copy_elements(game.block, 0, bank, point * size, size)
            point += 1
        move = actions[decision]
        decision += 1


@kernel(CompiledGame, vector(np.int64), int, int)
def _forward(game: CompiledGame, actions: np.ndarray, first: int, last: int) -> None:
    """Plays the legal moves `actions[first:last]`. The state may be a kept one, so `options` are filled anew first."""
    tables, state, options = game.tables, game.state, game.options
    if last > first:
        game.advance(tables, state, options, NO_MOVE)
    for decision in range(first, last):
        game.advance(tables, state, options, actions[decision])
