"""The current game of a search: a plan, its moves, and states kept along it.

A game with a changed plan is played from the last state that is kept before the change. While it is played, its own
states are kept in the other of two slots, so that it can become the current game without a copy.
"""

import numpy as np
from numpy.typing import NDArray

from ..compiled.block import copy_elements
from ..compiled.kernel import kernel, routine
from ..compiled.struct import Struct, array, rows
from .plan import TO_THE_END, Plan, PlanGame

# States kept along a game.
_CHECKPOINTS = 24


class Checkpoints(Struct):
    """States kept along the current game and along a changed one. Shapes: `P` points, `B` bytes of a state.

    Attributes:
      points: `[P]` the accesses before which a state is kept, ascending.
      bank: `[2 * P * B]` the states, two of each point.
      rewards: `[2, P]` rewards until then, in weighted seconds saved.
      slot: `[P]` which of the two belongs to the current game; a changed game writes to the other.
    """

    points: NDArray[np.int64] = rows(np.int64)
    bank: NDArray[np.uint8] = array(np.uint8, 1)
    rewards: NDArray[np.float64] = array(np.float64, 2)
    slot: NDArray[np.int64] = rows(np.int64)


class Current(Struct):
    """The current game of a walk, its best one, and the changed one. Shapes: `A` accesses.

    Attributes:
      plan, moves: `[A]` the plan and the moves of the current game.
      best_plan: `[A]`.
      trial_moves: `[A]` the moves of the changed game.
      seconds: `[2]` judged seconds of the current and of the best game.
    """

    plan: Plan = array(np.int8, 1)
    moves: NDArray[np.int8] = array(np.int8, 1)
    best_plan: Plan = array(np.int8, 1)
    trial_moves: NDArray[np.int8] = array(np.int8, 1)
    seconds: NDArray[np.float64] = rows(np.float64)


def new_current(plan: Plan) -> Current:
    """Returns the current game of a search from `plan[A]`; `begin_game` plays it."""
    return Current(
        plan=plan.copy(),
        moves=np.zeros(len(plan), np.int8),
        best_plan=plan.copy(),
        trial_moves=np.zeros(len(plan), np.int8),
        seconds=np.zeros(2),
    )


def new_checkpoints(accesses: int, state_bytes: int) -> Checkpoints:
    """Returns space for the states along a game of `accesses` accesses, of `state_bytes` bytes each."""
    points = np.unique(np.linspace(0, accesses, _CHECKPOINTS, endpoint=False).astype(np.int64))
    return Checkpoints(
        points=points,
        bank=np.zeros(2 * len(points) * state_bytes, np.uint8),
        rewards=np.zeros((2, len(points))),
        slot=np.zeros(len(points), np.int64),
    )


@kernel(PlanGame, Checkpoints, Current, returns=float)
def begin_game(game: PlanGame, kept: Checkpoints, current: Current) -> float:
    """Plays the current plan from the beginning and keeps its states in slot 0; returns its judged seconds."""
    tables, state = game.tables, game.state
    points = kept.points
    game.reset(tables, state)
    point = 0
    while True:
        until = points[point] if point < len(points) else TO_THE_END
        access = game.play_until(tables, state, game.options, current.plan, current.moves, until)
        while point < len(points) and access >= points[point]:
            keep(game, kept, 0, point)
            point += 1
        if until == TO_THE_END:
            return game.judge(tables, game.scoring, state)


@routine
def keep(game: PlanGame, kept: Checkpoints, slot: int, point: int) -> None:
    """Keeps the state of `game` in a slot of a point."""
    size = len(game.block)
    copy_elements(game.block, 0, kept.bank, (slot * len(kept.points) + point) * size, size)
    kept.rewards[slot, point] = game.state.now.reward


@routine
def go_back(game: PlanGame, kept: Checkpoints, access: int) -> int:
    """Brings `game` to the last state of the current game that is kept before `access`; returns its point."""
    point = len(kept.points) - 1
    while kept.points[point] > access:
        point -= 1
    size = len(game.block)
    copy_elements(kept.bank, (kept.slot[point] * len(kept.points) + point) * size, game.block, 0, size)
    return point


@routine
def accept(kept: Checkpoints, current: Current, point: int, judged: float) -> None:
    """Makes the changed game, which left the current one at `point`, the current game."""
    points, seconds = kept.points, current.seconds
    count, first = len(current.moves), points[point]
    seconds[0] = judged
    copy_elements(current.trial_moves, first, current.moves, first, count - first)
    for k in range(point + 1, len(points)):
        kept.slot[k] = 1 - kept.slot[k]
    if judged < seconds[1]:
        seconds[1] = judged
        copy_elements(current.plan, 0, current.best_plan, 0, count)
