"""The best line of play known of a program: games branch off from it anywhere, and go on by it.

Shapes: `D` decisions, `A` accesses.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ...env.compiled.block import copy_block
from ...env.compiled.unowned import unowned
from ...env.game.game import MallocGame
from ...env.game.rules import advance, catch_up, play, reset, step
from ...env.game.state import C_ACCESS, State, Tables
from .plan import choose, plan_of_line

# States kept along a line.
_POINTS = 24


class LineOfPlay:
    """A whole line of play.

    Attributes:
      actions: `[D]` its moves.
      preferences: `[A]` the plan that leads to the same game (`solvers/plan.py`), and on from others that are near.
      where: `[D]` the accesses that they decide.
      latency_s: what it comes to, as the judge counts.
    """

    def __init__(self, game: MallocGame, actions: NDArray[np.int64], latency_s: float) -> None:
        """Plays `actions` in `game`, which is left in the middle of nowhere."""
        self.actions = np.asarray(actions, np.int64)
        self.latency_s = latency_s
        self.preferences = np.zeros(len(game.tables.access), np.int8)
        count = len(self.actions)
        plan_of_line(game.tables, game.state, game.legal, self.actions, count, self.preferences)
        self._points = np.unique(np.linspace(0, count, _POINTS, endpoint=False).astype(np.int64))
        self.where = np.zeros(count, np.int64)
        self._bank = np.zeros((len(self._points), len(game.block)), np.uint8)
        _keep(game.tables, game.state, game.block, game.legal, self.actions, self.where, self._points, self._bank)

    def begin(self, game: MallocGame, decision: int) -> None:
        """Brings `game`, of the same program and rules, to where the line stands before a decision."""
        point = int(np.searchsorted(self._points, decision, side="right")) - 1
        game.block[:] = self._bank[point]
        passed = int(self._points[point])
        forward(game.tables, game.state, game.legal, self.actions[passed:decision])
        game.go_to(self.actions[:decision])


def nearest_move(game: MallocGame, preferences: NDArray[np.int8]) -> int:
    """Returns the move that comes nearest to `preferences` where `game` stands."""
    return int(choose(game.tables, game.state, game.legal, preferences[game.access]))


def play_to_end(game: MallocGame, preferences: NDArray[np.int8]) -> None:
    """Plays `game` to its end as near to `preferences` as can be."""
    while not game.done:
        game.step_unpaid(nearest_move(game, preferences))


@njit(cache=True, nogil=True)
def _keep(
    tables: Tables,
    state: State,
    block: np.ndarray,
    legal: np.ndarray,
    actions: np.ndarray,
    where: np.ndarray,
    points: np.ndarray,
    bank: np.ndarray,
) -> None:
    """Plays `actions` from the beginning, notes what they decide, keeps the state before each decision of `points`."""
    tables, state = unowned(tables), unowned(state)
    reset(tables, state)
    point = 0
    going = advance(tables, state, legal)
    decision = 0
    while going:
        where[decision] = state.counters[C_ACCESS]
        if point < len(points) and decision == points[point]:
            copy_block(block, bank[point])
            point += 1
        going = step(tables, state, actions[decision], legal)
        decision += 1


@njit(cache=True, nogil=True)
def forward(tables: Tables, state: State, legal: np.ndarray, actions: np.ndarray) -> None:
    """Makes legal moves."""
    tables, state = unowned(tables), unowned(state)
    for action in actions:
        step(tables, state, action, legal)


@njit(cache=True, nogil=True)
def rollout(tables: Tables, state: State, legal: np.ndarray, following: np.ndarray, preferences: np.ndarray) -> None:
    """Plays to the end as `play_to_end` does, without telling decisions from forced moves, which takes half the time."""
    tables, state = unowned(tables), unowned(state)
    while True:
        state.counters[C_ACCESS] = following[state.counters[C_ACCESS]]
        if not catch_up(tables, state):
            return
        play(tables, state, choose(tables, state, legal, preferences[state.counters[C_ACCESS]]))
