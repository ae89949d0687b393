"""The current game of a search: a plan, its moves, and states kept along it.

A game with a changed plan is played from the last state that is kept before the change. Up to the change it is the
current game, so states that are missing there are kept on the way. States after the change are not kept: most changed
games are dropped, and copying a state takes as long as playing a good part of a game.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compiled.block import copy_elements
from ..compiled.kernel import kernel, routine
from ..compiled.struct import Struct, array, rows
from .plan import TO_THE_END, Plan, PlanGame
from .records import COPY, HOLDER, PENDING, RESIDENCY

# Points along a game, and the most bytes of the states that are kept at them.
_POINTS = 24
_MOST_BYTES = 2**26
_FEWEST_STATES = 4
_HOLDER_BYTES, _RESIDENCY_BYTES, _COPY_BYTES, _PENDING_BYTES = (
    record.itemsize for record in (HOLDER, RESIDENCY, COPY, PENDING)
)


class Checkpoints(Struct):
    """States kept along the current game. Shapes: `P` points, `C` of them with a state, `B` bytes of a state.

    Attributes:
      points: `[P]` accesses, ascending, before which games are compared and states are kept.
      bank: `[C * B]` the states; of residents, residencies, copies and pending write-backs only the rows in use.
      begins: `[4]` the bytes of a state at which those four begin.
      place: `[P]` the place of a point's state in `bank`, or -1: long programs keep fewer states.
      held: `[P]` 1 if that state is kept now.
      rewards: `[2, P]` rewards until then, in weighted seconds saved, of the current game and of a changed one.
    """

    points: NDArray[np.int64] = rows(np.int64)
    bank: NDArray[np.uint8] = array(np.uint8, 1)
    begins: NDArray[np.int64] = rows(np.int64)
    place: NDArray[np.int64] = rows(np.int64)
    held: NDArray[np.int8] = rows(np.int8)
    rewards: NDArray[np.float64] = array(np.float64, 2)


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


def new_checkpoints(game: PlanGame) -> Checkpoints:
    """Returns space for the states along a game."""
    accesses, state_bytes = len(game.tables.access), len(game.block)
    state = game.state
    growing = state.holders, state.residency, state.copy, state.queue
    points = np.unique(np.linspace(0, accesses, _POINTS, endpoint=False).astype(np.int64))
    states = min(len(points), max(_FEWEST_STATES, _MOST_BYTES // max(state_bytes, 1)))
    place = np.full(len(points), -1, np.int64)
    place[np.linspace(0, len(points), states, endpoint=False).astype(np.int64)] = np.arange(states)
    return Checkpoints(
        points=points,
        bank=np.zeros(states * state_bytes, np.uint8),
        begins=np.array([part.ctypes.data - game.block.ctypes.data for part in growing], np.int64),
        place=place,
        held=np.zeros(len(points), np.int8),
        rewards=np.zeros((2, len(points))),
    )


@kernel(PlanGame, Checkpoints, Current, returns=float)
def begin_game(game: PlanGame, kept: Checkpoints, current: Current) -> float:
    """Plays the current plan from the beginning and keeps its states; returns its judged seconds."""
    tables, state = game.tables, game.state
    points = kept.points
    for point in range(len(points)):
        kept.held[point] = 0
    game.reset(tables, state)
    point = 0
    while True:
        until = points[point] if point < len(points) else TO_THE_END
        access = game.play_until(tables, state, game.options, current.plan, current.moves, until)
        while point < len(points) and access >= points[point]:
            pass_point(game, kept, point, access)
            kept.rewards[0, point] = kept.rewards[1, point]
            point += 1
        if until == TO_THE_END:
            return game.judge(tables, game.scoring, state)


@routine
def pass_point(game: PlanGame, kept: Checkpoints, point: int, first: int) -> None:
    """Notes the reward of a changed game at a point. Keeps its state if it is missing there and `game` has not passed
    `first`, the first access that is changed: until then it is the current game."""
    kept.rewards[1, point] = game.state.now.reward
    if kept.place[point] >= 0 and not kept.held[point] and game.state.now.access <= first:
        at = kept.place[point] * len(game.block)
        copy_elements(game.block, 0, kept.bank, at, kept.begins[0])
        _copy_rows(kept, game.state.now, game.block, 0, kept.bank, at)
        kept.held[point] = 1


@routine
def go_back(game: PlanGame, kept: Checkpoints, access: int) -> int:
    """Brings `game` to the last state of the current game that is kept before `access`; returns its point."""
    point = len(kept.points) - 1
    while kept.points[point] > access or not kept.held[point]:
        point -= 1
    at = kept.place[point] * len(game.block)
    copy_elements(kept.bank, at, game.block, 0, kept.begins[0])
    _copy_rows(kept, game.state.now, kept.bank, at, game.block, 0)
    return point


@routine
def _copy_rows(kept: Checkpoints, now: Any, source: np.ndarray, source_at: int, into: np.ndarray, into_at: int) -> None:
    """Copies the rows of residents, residencies, copies and pending write-backs that `now` says are in use."""
    for kind in range(4):
        first, last, size = 0, now.holders, _HOLDER_BYTES
        if kind == 1:
            last, size = now.residencies, _RESIDENCY_BYTES
        elif kind == 2:
            last, size = now.copies, _COPY_BYTES
        elif kind == 3:
            first, last, size = now.queue_head, now.queue_tail, _PENDING_BYTES
        at = kept.begins[kind] + first * size
        copy_elements(source, source_at + at, into, into_at + at, (last - first) * size)


@routine
def accept(kept: Checkpoints, current: Current, point: int, first: int, judged: float) -> None:
    """Makes the changed game, which left the current one at `point` and differs from access `first` on, the current
    game. States after the change are of no use any more."""
    points, seconds = kept.points, current.seconds
    count, begin = len(current.moves), points[point]
    seconds[0] = judged
    copy_elements(current.trial_moves, begin, current.moves, begin, count - begin)
    for k in range(point + 1, len(points)):
        kept.rewards[0, k] = kept.rewards[1, k]
        if points[k] > first:
            kept.held[k] = 0
    if judged < seconds[1]:
        seconds[1] = judged
        copy_elements(current.plan, 0, current.best_plan, 0, count)
