"""What every legal move of a decision would come to, exactly: each is played, and the game goes on by a plan.

It costs a compiled game per move, and says what a search over a learned model can only guess: which decisions matter at
all, and by how much. Most do not.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ...env.compiled.block import copy_block
from ...env.compiled.unowned import unowned
from ...env.game.rules import NUM_MOVES, catch_up, legal_moves, play, reset
from ...env.game.state import C_ACCESS, State, Tables
from .line import rollout
from .outcome import Scoring, outcome
from .plan import choose
from .task import Plan, Task

# What a clearly worse move loses in logits: `value_scale * maxvisit_init` of the search.
_SCALE = 5.0


def policy_of_outcomes(seconds: NDArray[np.float64], unit_s: float, epsilon: float) -> NDArray[np.float32]:
    """Returns `[3]` a target for the policy head: moves that come to the same are equally likely, and one that is worse
    by `d` units of `unit_s` loses up to 5 logits, half of them at `d = epsilon` (as `search.transform_q` has it)."""
    legal = np.isfinite(seconds)
    distance = np.where(legal, seconds - seconds.min(), 0.0) / unit_s
    weights = np.where(legal, np.exp(-_SCALE * distance / (distance + epsilon)), 0.0)
    return (weights / weights.sum()).astype(np.float32)


def plan_outcomes(task: Task, plan: Plan, accesses: NDArray[np.int64]) -> NDArray[np.float64]:
    """Returns `[N, 3]` what every legal move at `accesses[N]`, ascending, of the game that `plan[A]` makes would come
    to if the game went on by the plan, in the judge's seconds; infinity for moves that are not legal."""
    seconds = np.full((len(accesses), NUM_MOVES), np.inf)
    _plan_outcomes(
        task.tables,
        task.scoring,
        task.state,
        task.block,
        np.empty_like(task.block),
        task.legal,
        task.following,
        plan,
        accesses,
        seconds,
    )
    return seconds


@njit(cache=True, nogil=True)
def _plan_outcomes(
    tables: Tables,
    scoring: Scoring,
    state: State,
    block: np.ndarray,
    kept: np.ndarray,
    legal: np.ndarray,
    following: np.ndarray,
    plan: np.ndarray,
    accesses: np.ndarray,
    seconds: np.ndarray,
) -> None:
    tables, state = unowned(tables), unowned(state)
    reset(tables, state)
    row = 0
    while row < len(accesses):
        state.counters[C_ACCESS] = following[state.counters[C_ACCESS]]
        if not catch_up(tables, state):
            return
        access = state.counters[C_ACCESS]
        if access == accesses[row]:
            legal_moves(tables, state, legal)
            move_outcomes(tables, scoring, state, block, kept, legal, following, plan, seconds[row])
            row += 1
        play(tables, state, choose(tables, state, legal, plan[access]))


@njit(cache=True, nogil=True)
def move_outcomes(
    tables: Tables,
    scoring: Scoring,
    state: State,
    block: np.ndarray,
    kept: np.ndarray,
    legal: np.ndarray,
    following: np.ndarray,
    preferences: np.ndarray,
    seconds: np.ndarray,
) -> None:
    """Fills `seconds[3]` with what the judge sees if each legal move is made and the game goes on by `preferences[A]`; with
    infinity for the others.

    The game stands before a decision, and does so again afterwards. `block` is its memory, `kept` room for a copy;
    `following[A + 1]` is that of `next_placeable`.
    """
    tables, state = unowned(tables), unowned(state)
    copy_block(block, kept)
    may = legal.copy()
    for move in range(NUM_MOVES):
        seconds[move] = np.inf
        if not may[move]:
            continue
        play(tables, state, move)
        rollout(tables, state, legal, following, preferences)
        seconds[move] = outcome(tables, scoring, state)
        copy_block(kept, block)
    legal[:] = may


@njit(cache=True, nogil=True)
def outcome_ahead(
    tables: Tables,
    scoring: Scoring,
    state: State,
    block: np.ndarray,
    kept: np.ndarray,
    legal: np.ndarray,
    following: np.ndarray,
    preferences: np.ndarray,
) -> float:
    """Returns what the judge sees if the game goes on by `preferences[A]`; arguments as in `move_outcomes`."""
    tables, state = unowned(tables), unowned(state)
    copy_block(block, kept)
    may = legal.copy()
    rollout(tables, state, legal, following, preferences)
    seconds = outcome(tables, scoring, state)
    copy_block(kept, block)
    legal[:] = may
    return seconds
