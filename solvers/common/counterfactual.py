"""Counterfactual outcomes: every legal move of a decision is played, and a plan plays the game to its end.

The result is exact and costs one compiled game per move. It shows which decisions matter, and how much; most do not.
"""

import numpy as np
from numba import types
from numpy.typing import NDArray

from ...env.compiled.block import copy_elements
from ...env.compiled.kernel import kernel, routine, vector
from ...env.compiled.struct import Struct, array, one, rows
from ...env.game.moves import NUM_MOVES
from ...env.game.options import ANY_OFFSET, OPTIONS, Options, new_options
from ...env.game.plan import TO_THE_END, Plan, PlanGame
from .task import Task

# Logits that a clearly worse move loses: `value_scale * maxvisit_init` of the search.
_SCALE = 5.0


class Rollout(Struct):
    """What rollouts need beside the game. Shapes: `A` accesses, `B` bytes of a state.

    Attributes:
      kept: `[B]` a copy of the state.
      options: the options of the rollouts.
      moves: `[A]` their moves.
      seconds: `[3]` the judged seconds after each move.
    """

    kept: NDArray[np.uint8] = array(np.uint8, 1)
    options: Options = one(OPTIONS)
    moves: NDArray[np.int8] = array(np.int8, 1)
    seconds: NDArray[np.float64] = rows(np.float64)


def new_rollout(accesses: int, block_bytes: int) -> Rollout:
    """Returns the space for rollouts of a game."""
    return Rollout(
        kept=np.zeros(block_bytes, np.uint8),
        options=new_options(),
        moves=np.zeros(accesses, np.int8),
        seconds=np.zeros(NUM_MOVES),
    )


def policy_of_outcomes(seconds: NDArray[np.float64], unit_s: float, epsilon: float) -> NDArray[np.float32]:
    """Returns `[3]` a target for the policy head from the outcome of each move, in seconds; infinity for illegal moves.

    Moves of equal outcome are equally likely. A move that is worse by `d` units of `unit_s` loses
    `5 d / (d + epsilon)` logits, as in `actors.search.search.transform_q`.
    """
    legal = np.isfinite(seconds)
    distance = np.where(legal, seconds - seconds.min(), 0.0) / unit_s
    weights = np.where(legal, np.exp(-_SCALE * distance / (distance + epsilon)), 0.0)
    return (weights / weights.sum()).astype(np.float32)


def plan_outcomes(task: Task, plan: Plan, accesses: NDArray[np.int64]) -> NDArray[np.float64]:
    """Returns `[N, 3]` the judged seconds after each legal move at `accesses[N]`, ascending, of the game by `plan[A]`,
    which plays on after the move; infinity for illegal moves."""
    seconds = np.full((len(accesses), NUM_MOVES), np.inf)
    _plan_outcomes(task.plan_game, new_rollout(len(plan), len(task.block)), plan, accesses, seconds)
    return seconds


@kernel(PlanGame, Rollout, vector(np.int8), vector(np.int64), types.Array(types.float64, 2, "C"))
def _plan_outcomes(
    game: PlanGame, rollout: Rollout, plan: np.ndarray, accesses: np.ndarray, seconds: np.ndarray
) -> None:
    tables, state, options = game.tables, game.state, game.options
    game.reset(tables, state)
    for row in range(len(accesses)):
        access = game.play_until(tables, state, options, plan, rollout.moves, accesses[row])
        if access != accesses[row] or game.look(tables, state, options, ANY_OFFSET, False) == 0:
            return
        _move_outcomes(game, rollout, plan)
        for move in range(NUM_MOVES):
            seconds[row, move] = rollout.seconds[move]


@kernel(PlanGame, Rollout, vector(np.int8))
def move_outcomes(game: PlanGame, rollout: Rollout, preferences: np.ndarray) -> None:
    """Fills `rollout.seconds` with the judged seconds after each legal move, when `preferences[A]` play on; infinity
    for illegal moves. The game is before a decision, its options are filled, and it is unchanged afterwards."""
    _move_outcomes(game, rollout, preferences)


@routine
def _move_outcomes(game: PlanGame, rollout: Rollout, preferences: np.ndarray) -> None:
    tables, state = game.tables, game.state
    size = len(game.block)
    copy_elements(game.block, 0, rollout.kept, 0, size)
    for move in range(NUM_MOVES):
        rollout.seconds[move] = np.inf
        if not game.options.legal[move]:
            continue
        game.make(tables, state, game.options, move)
        game.play_until(tables, state, rollout.options, preferences, rollout.moves, TO_THE_END)
        rollout.seconds[move] = game.judge(tables, game.scoring, state)
        copy_elements(rollout.kept, 0, game.block, 0, size)


@kernel(PlanGame, Rollout, vector(np.int8), returns=float)
def outcome_ahead(game: PlanGame, rollout: Rollout, preferences: np.ndarray) -> float:
    """Returns the judged seconds when `preferences[A]` play on from here; the game is unchanged afterwards."""
    tables, state = game.tables, game.state
    size = len(game.block)
    copy_elements(game.block, 0, rollout.kept, 0, size)
    game.play_until(tables, state, rollout.options, preferences, rollout.moves, TO_THE_END)
    seconds = game.judge(tables, game.scoring, state)
    copy_elements(rollout.kept, 0, game.block, 0, size)
    return seconds
