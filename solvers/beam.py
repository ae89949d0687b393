"""The solver `beam`: beam search over the moves of a game, each judged by playing on along the best plan known."""

from dataclasses import dataclass

import numpy as np
from numba import njit

from ..env.compiled.block import copy_block
from ..env.compiled.unowned import unowned
from ..env.game.columns import C_ACCESS, F_REWARD
from ..env.game.instructions import catch_up
from ..env.game.legality import legal_moves
from ..env.game.moves import NUM_MOVES
from ..env.game.options import ANY_OFFSET, Options
from ..env.game.play import play
from ..env.game.rules import reset
from ..env.game.state import State
from ..env.game.tables import Tables
from .common.plan import Plan, choose, preference_of
from .common.starts import best_starts
from .common.task import Task
from .xla.solver import xla_mappings

_XLA_SHARE, _START_SHARE = 0.06, 0.2
# Width and look-ahead, in accesses, of each pass. The last repeats, with random ties.
_PASSES = ((1, 32), (2, 64), (4, 64), (4, 128), (8, 128), (8, 256), (16, 256))


@dataclass(frozen=True, eq=False)
class _Branch:
    """A game in progress.

    Attributes:
      block: its state.
      plan: the moves made so far, then the plan to play on by.
    """

    block: np.ndarray
    plan: Plan


def beam(task: Task) -> None:
    """Runs passes, each wider and looking further ahead than the last, until the budget is spent."""
    task.doing = "starts"
    best_starts(task, _START_SHARE, xla_mappings(task, _XLA_SHARE))
    number = 0
    while not task.done and task.best_plan is not None and len(task.free):
        task.use(task.best_tables)
        width, ahead = _PASSES[min(number, len(_PASSES) - 1)]
        task.doing = f"{width} wide, {ahead} ahead"
        _one_pass(task, width, ahead)
        number += 1


def _one_pass(task: Task, width: int, ahead: int) -> None:
    """Plays one pass; if the budget ends, the rest of each game follows its plan."""
    assert task.best_plan is not None
    tables, state, block, known = task.tables, task.state, task.block, task.best_plan
    _start(tables, state)
    branches = [_Branch(block.copy(), known.copy())]
    moves, scores = np.zeros(NUM_MOVES, np.bool_), np.zeros(NUM_MOVES)
    children = np.zeros((NUM_MOVES, len(block)), np.uint8)
    over, played = False, 0
    while not over:
        found: list[tuple[float, float, _Branch]] = []
        for branch in branches:
            block[:] = branch.block
            over = not _to_choice(tables, state, task.options, task.following, moves)
            if over:
                break
            access = int(state.counters[C_ACCESS])
            preferences = [preference_of(tables, state, move) for move in range(NUM_MOVES)]
            look = ahead if len(branches) > 1 or moves.sum() > 1 else 0
            _expand(tables, state, block, task.options, task.following, branch.plan, moves, look, children, scores)
            played += int(moves.sum()) * (1 + look)
            for move in np.flatnonzero(moves).tolist():
                plan = branch.plan
                if plan[access] != preferences[move]:
                    plan = plan.copy()
                    plan[access] = preferences[move]
                tie = 0.0 if preferences[move] == known[access] else 0.5 + 0.5 * task.generator.random()
                found.append((-float(scores[move]), tie, _Branch(children[move].copy(), plan)))
        if found:
            # All branches are at the same access: which accesses are decided does not depend on earlier moves.
            found.sort(key=lambda entry: entry[:2])
            branches = [branch for _, _, branch in found[:width]]
        task.evaluations += played // len(task.free)  # one evaluation per game's worth of accesses
        played %= len(task.free)
        if task.done:
            break
    for branch in branches:
        task.play(branch.plan)


@njit(cache=True, nogil=True)
def _start(tables: Tables, state: State) -> None:
    reset(tables, state)


@njit(cache=True, nogil=True)
def _to_choice(tables: Tables, state: State, options: Options, following: np.ndarray, moves: np.ndarray) -> bool:
    """Advances to the next access that a plan decides and sets its legal `moves`; returns False at the end."""
    tables, state = unowned(tables), unowned(state)
    state.counters[C_ACCESS] = following[state.counters[C_ACCESS]]
    if not catch_up(tables, state):
        return False
    legal_moves(tables, state, options, ANY_OFFSET, False)
    for move in range(NUM_MOVES):
        moves[move] = options.legal[move] == 1
    return True


@njit(cache=True, nogil=True)
def _expand(
    tables: Tables,
    state: State,
    block: np.ndarray,
    options: Options,
    following: np.ndarray,
    plan: np.ndarray,
    moves: np.ndarray,
    ahead: int,
    children: np.ndarray,
    scores: np.ndarray,
) -> None:
    """Plays each of the legal `moves`, and on by `plan`; leaves the state as it was.

    `children[move]` receives the state after a move, `scores[move]` the seconds saved `ahead` accesses later.
    """
    tables, state = unowned(tables), unowned(state)
    here = block.copy()
    for move in range(NUM_MOVES):
        if not moves[move]:
            continue
        copy_block(here, block)
        legal_moves(tables, state, options, ANY_OFFSET, False)  # plans it
        play(tables, state, options, move)
        copy_block(block, children[move])
        for _ in range(ahead):
            state.counters[C_ACCESS] = following[state.counters[C_ACCESS]]
            if not catch_up(tables, state):
                break
            play(tables, state, options, choose(tables, state, options, plan[state.counters[C_ACCESS]]))
        scores[move] = state.sums[F_REWARD]
    copy_block(here, block)
