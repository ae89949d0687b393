"""The best line of play known of a program: games branch off from it anywhere, and go on by it.

Shapes: `D` decisions, `A` accesses.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..env.core import advance, reset, step
from ..env.game import MallocGame
from ..env.layout import C_ACCESS, F_REWARD, State, Tables
from .solvers.plan import choose, plan_of_line

# States kept along a line.
_POINTS = 24


class Line:
    """A whole line of play.

    Attributes:
      actions: `[D]` its moves.
      wishes: `[A]` the plan that leads to the same game (`solvers/plan.py`), and on from others that are near.
      latency_s: what it comes to, as the judge counts.
    """

    def __init__(self, game: MallocGame, actions: NDArray[np.int64], latency_s: float) -> None:
        """Plays `actions` in `game`, which is left in the middle of nowhere."""
        self.actions = np.asarray(actions, np.int64)
        self.latency_s = latency_s
        self.wishes = np.zeros(len(game.tables.access), np.int8)
        count = len(self.actions)
        plan_of_line(game.tables, game.state, game.legal, self.actions, count, self.wishes)
        self._points = np.unique(np.linspace(0, count, _POINTS, endpoint=False).astype(np.int64))
        self._bank = np.zeros((len(self._points), len(game.block)), np.uint8)
        _keep(game.tables, game.state, game.block, game.legal, self.actions, self._points, self._bank)

    def begin(self, game: MallocGame, decision: int) -> None:
        """Brings `game`, of the same program and rules, to where the line stands before a decision."""
        point = int(np.searchsorted(self._points, decision, side="right")) - 1
        game.block[:] = self._bank[point]
        passed = int(self._points[point])
        forward(game.tables, game.state, game.legal, self.actions[passed:decision])
        game.go_to(self.actions[:decision])


def nearest_move(game: MallocGame, wishes: NDArray[np.int8]) -> int:
    """Returns the move that comes nearest to `wishes` where `game` stands."""
    return int(choose(game.tables, game.state, game.legal, wishes[game.access]))


def play_on(game: MallocGame, wishes: NDArray[np.int8]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Plays `game` to its end as near to `wishes` as can be.

    Returns:
      The accesses that were decided, and the weighted seconds saved before each: `[n]` both.
    """
    accesses = len(game.tables.access)
    taken, where, saved = np.zeros(accesses, np.int64), np.zeros(accesses, np.int64), np.zeros(accesses)
    if game.done:
        return where[:0], saved[:0]
    count = _play_on(game.tables, game.state, game.legal, wishes, taken, where, saved)
    game.take_over((*game.actions, *taken[:count]))
    return where[:count], saved[:count]


@njit(cache=True, nogil=True)
def _keep(
    tables: Tables,
    state: State,
    block: np.ndarray,
    legal: np.ndarray,
    actions: np.ndarray,
    points: np.ndarray,
    bank: np.ndarray,
) -> None:
    """Plays `actions` from the beginning, and keeps the state before each decision of `points`."""
    reset(tables, state)
    point = 0
    going = advance(tables, state, legal)
    decision = 0
    while going and point < len(points):
        if decision == points[point]:
            bank[point] = block
            point += 1
        going = step(tables, state, actions[decision], legal)
        decision += 1


@njit(cache=True, nogil=True)
def forward(tables: Tables, state: State, legal: np.ndarray, actions: np.ndarray) -> None:
    """Makes legal moves."""
    for action in actions:
        step(tables, state, action, legal)


@njit(cache=True, nogil=True)
def _play_on(
    tables: Tables,
    state: State,
    legal: np.ndarray,
    wishes: np.ndarray,
    taken: np.ndarray,
    where: np.ndarray,
    saved: np.ndarray,
) -> int:
    count = 0
    going = True
    while going:
        where[count], saved[count] = state.counters[C_ACCESS], state.sums[F_REWARD]
        move = choose(tables, state, legal, wishes[where[count]])
        taken[count] = move
        count += 1
        going = step(tables, state, move, legal)
    return count
