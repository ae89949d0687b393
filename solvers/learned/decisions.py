"""The decisions along a line of play, as the policy network observes them.

Shapes: `N` decisions, `O` observation size, `M` moves, `A` accesses.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ...env.compiled.unowned import unowned
from ...env.game.columns import C_ACCESS
from ...env.game.instructions import catch_up
from ...env.game.legality import legal_moves
from ...env.game.moves import NUM_MOVES
from ...env.game.observation import OBSERVATION_SIZE, observe
from ...env.game.options import ANY_OFFSET, Options
from ...env.game.play import play
from ...env.game.rules import reset
from ...env.game.state import State
from ...env.game.tables import Tables
from ..common.plan import Plan, choose, preference_of
from ..common.task import Task

# An access, and another preference for it.
Change = tuple[int, int]


class Decisions(NamedTuple):
    """Decisions along a line of play.

    Attributes:
      access: `[N]` the access that is decided.
      move: `[N]` the line's move.
      observation: `[N, O]`.
      legal: `[N, M]`.
      preference: `[N, M]` the preference of a plan (`solvers/common/plan.py`) that leads to each move.
    """

    access: NDArray[np.int64]
    move: NDArray[np.int64]
    observation: NDArray[np.float32]
    legal: NDArray[np.bool_]
    preference: NDArray[np.int8]

    def at(self, rows: NDArray[np.int64]) -> "Decisions":
        """Returns the decisions at `rows`."""
        return Decisions._make(part[rows] for part in self)


def decisions_along(task: Task, plan: Plan) -> Decisions:
    """Plays `plan[A]` and returns its decisions; accesses with a single legal move are none."""
    accesses = len(task.tables.access)
    found = Decisions(
        np.zeros(accesses, np.int64),
        np.zeros(accesses, np.int64),
        np.zeros((accesses, OBSERVATION_SIZE), np.float32),
        np.zeros((accesses, NUM_MOVES), np.bool_),
        np.zeros((accesses, NUM_MOVES), np.int8),
    )
    count = _record(task.tables, task.state, task.options, task.following, plan, *found)
    return Decisions._make(part[:count] for part in found)


@njit(cache=True, nogil=True)
def _record(
    tables: Tables,
    state: State,
    options: Options,
    following: np.ndarray,
    plan: np.ndarray,
    accesses: np.ndarray,
    moves: np.ndarray,
    observations: np.ndarray,
    legals: np.ndarray,
    preferences: np.ndarray,
) -> int:
    """Plays `plan`, fills the columns of `Decisions`, and returns the number of decisions."""
    tables, state = unowned(tables), unowned(state)
    reset(tables, state)
    count = 0
    while True:
        state.counters[C_ACCESS] = following[state.counters[C_ACCESS]]
        if not catch_up(tables, state):
            return count
        access = state.counters[C_ACCESS]
        decides = legal_moves(tables, state, options, ANY_OFFSET, False) > 1
        if decides:
            accesses[count] = access
            observe(tables, state, options, observations[count])
            for move in range(NUM_MOVES):
                legals[count, move] = options.legal[move] == 1
                preferences[count, move] = preference_of(tables, state, move)
        move = choose(tables, state, options, plan[access])
        if decides:
            moves[count] = move
            count += 1
        play(tables, state, options, move)
