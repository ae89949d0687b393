"""The decisions along a line of play, as the policy network observes them.

Shapes: `N` decisions, `O` observation size, `M` moves, `A` accesses.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...env.compiled.kernel import kernel, vector
from ...env.compiled.struct import Struct, array, function, rows
from ...env.game import kernels
from ...env.game.moves import NUM_MOVES
from ...env.game.observation import OBSERVATION_SIZE
from ...env.game.options import ANY_OFFSET
from ...env.game.plan import TO_THE_END, Plan, PlanGame, preference_of
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
    seen = Seen(
        access=found.access,
        move=found.move,
        observation=found.observation,
        legal=found.legal.view(np.int8),
        preference=found.preference,
        moves=np.zeros(accesses, np.int8),
    )
    count = _record(task.plan_game, seen, plan)
    return Decisions._make(part[:count] for part in found)


class Seen(Struct):
    """`Decisions` as compiled code fills them in; `moves[A]` are those of the whole game."""

    access: NDArray[np.int64] = rows(np.int64)
    move: NDArray[np.int64] = rows(np.int64)
    observation: NDArray[np.float32] = array(np.float32, 2)
    legal: NDArray[np.int8] = array(np.int8, 2)
    preference: NDArray[np.int8] = array(np.int8, 2)
    moves: NDArray[np.int8] = array(np.int8, 1)
    observe = function(kernels.observe)


@kernel(PlanGame, Seen, vector(np.int8), returns=int)
def _record(game: PlanGame, seen: Seen, plan: np.ndarray) -> int:
    """Plays `plan`, fills in its decisions, and returns their number."""
    tables, state, options = game.tables, game.state, game.options
    accesses = len(plan)
    game.reset(tables, state)
    count = 0
    access = game.play_until(tables, state, options, plan, seen.moves, 0)
    while access < accesses:
        decides = game.look(tables, state, options, ANY_OFFSET, False) > 1
        if decides:
            seen.access[count] = access
            seen.observe(tables, state, options, seen.observation[count])
            for move in range(NUM_MOVES):
                seen.legal[count, move] = options.legal[move]
                seen.preference[count, move] = preference_of(tables, state, move)
        following = game.play_until(tables, state, options, plan, seen.moves, access + 1)
        if decides:
            seen.move[count] = seen.moves[access]
            count += 1
        access = following
    game.play_until(tables, state, options, plan, seen.moves, TO_THE_END)
    return count
