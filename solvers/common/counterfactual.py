"""Counterfactual outcomes: every legal move of a decision is played, and a plan plays the game to its end.

The result is exact and costs one compiled game per move. It tells which decisions matter, and by how much; most do not.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ...env.compiled.block import copy_block
from ...env.compiled.unowned import unowned
from ...env.game.columns import C_ACCESS
from ...env.game.instructions import catch_up
from ...env.game.legality import legal_moves
from ...env.game.moves import NUM_MOVES
from ...env.game.options import ANY_OFFSET, Options, new_options
from ...env.game.outcome import outcome
from ...env.game.play import play
from ...env.game.rules import reset
from .line import rollout
from .plan import Plan, PlanGame, choose
from .task import Task

# Logits that a clearly worse move loses: `value_scale * maxvisit_init` of the search.
_SCALE = 5.0


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
    _plan_outcomes(task.plan_game, np.empty_like(task.block), new_options(), plan, accesses, seconds)
    return seconds


@njit(cache=True, nogil=True)
def _plan_outcomes(
    game: PlanGame, kept: np.ndarray, scratch: Options, plan: np.ndarray, accesses: np.ndarray, seconds: np.ndarray
) -> None:
    tables, state, options = unowned(game.tables), unowned(game.state), game.options
    reset(tables, state)
    row = 0
    while row < len(accesses):
        state.counters[C_ACCESS] = game.following[state.counters[C_ACCESS]]
        if not catch_up(tables, state):
            return
        access = state.counters[C_ACCESS]
        if access == accesses[row]:
            legal_moves(tables, state, options, ANY_OFFSET, False)
            move_outcomes(game, kept, scratch, plan, seconds[row])
            row += 1
        play(tables, state, options, choose(tables, state, options, plan[access]))


@njit(cache=True, nogil=True)
def move_outcomes(
    game: PlanGame, kept: np.ndarray, scratch: Options, preferences: np.ndarray, seconds: np.ndarray
) -> None:
    """Fills `seconds[3]` with the judged seconds after each legal move, when `preferences[A]` play on; infinity for
    illegal moves.

    Args:
      game: a game before a decision, whose options are filled; it is unchanged afterwards.
      kept, scratch: memory for a copy of its block, and for the options of the rollouts.
      preferences: `[A]`.
      seconds: `[3]`, filled.
    """
    tables, state = unowned(game.tables), unowned(game.state)
    copy_block(game.block, kept)
    for move in range(NUM_MOVES):
        seconds[move] = np.inf
        if not game.options.legal[move]:
            continue
        play(tables, state, game.options, move)
        rollout(tables, state, scratch, game.following, preferences)
        seconds[move] = outcome(tables, game.scoring, state)
        copy_block(kept, game.block)


@njit(cache=True, nogil=True)
def outcome_ahead(game: PlanGame, kept: np.ndarray, scratch: Options, preferences: np.ndarray) -> float:
    """Returns the judged seconds when `preferences[A]` play on from here; arguments as in `move_outcomes`."""
    tables, state = unowned(game.tables), unowned(game.state)
    copy_block(game.block, kept)
    rollout(tables, state, scratch, game.following, preferences)
    seconds = outcome(tables, game.scoring, state)
    copy_block(kept, game.block)
    return seconds
