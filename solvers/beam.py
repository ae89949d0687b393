"""The solver `beam`: beam search over the moves of a game, each judged by playing on along the best plan known."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..env.compiled.block import copy_elements
from ..env.compiled.kernel import kernel, vector
from ..env.compiled.struct import Struct, array, rows
from ..env.game import kernels
from ..env.game.moves import NUM_MOVES
from ..env.game.options import ANY_OFFSET
from ..env.game.plan import TO_THE_END, Plan, PlanGame, preference_for
from .common.task import Task
from .starts.plans import best_starts
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


class Children(Struct):
    """The games that begin with each legal move of a decision. Shapes: `A` accesses, `B` bytes of a state.

    Attributes:
      legal: `[3]` the legal moves.
      score: `[3]` seconds saved some accesses later.
      block: `[3 * B]` the state after each move.
      here: `[B]` the state before.
      moves: `[A]` the moves of a look ahead.
    """

    legal: NDArray[np.int8] = rows(np.int8)
    score: NDArray[np.float64] = rows(np.float64)
    block: NDArray[np.uint8] = array(np.uint8, 1)
    here: NDArray[np.uint8] = array(np.uint8, 1)
    moves: NDArray[np.int8] = array(np.int8, 1)


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
    kernels.reset(tables, state)
    branches = [_Branch(block.copy(), known.copy())]
    size = len(block)
    children = Children(
        legal=np.zeros(NUM_MOVES, np.int8),
        score=np.zeros(NUM_MOVES),
        block=np.zeros(NUM_MOVES * size, np.uint8),
        here=np.zeros(size, np.uint8),
        moves=np.zeros(len(known), np.int8),
    )
    over, played = False, 0
    while not over:
        found: list[tuple[float, float, _Branch]] = []
        for branch in branches:
            block[:] = branch.block
            state.now.access = tables.following[state.now.access]
            over = kernels.look(tables, state, task.options, ANY_OFFSET, False) == 0
            if over:
                break
            children.legal[:] = task.options.legal
            moves = np.flatnonzero(children.legal).tolist()
            access = int(state.now.access)
            preferences = [preference_for(tables, state, move) for move in range(NUM_MOVES)]
            look = ahead if len(branches) > 1 or len(moves) > 1 else 0
            _expand(task.plan_game, children, branch.plan, look)
            played += len(moves) * (1 + look)
            for move in moves:
                plan = branch.plan
                if plan[access] != preferences[move]:
                    plan = plan.copy()
                    plan[access] = preferences[move]
                tie = 0.0 if preferences[move] == known[access] else 0.5 + 0.5 * task.generator.random()
                found.append(
                    (
                        -float(children.score[move]),
                        tie,
                        _Branch(children.block[move * size : (move + 1) * size].copy(), plan),
                    )
                )
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


@kernel(PlanGame, Children, vector(np.int8), int)
def _expand(game: PlanGame, children: Children, plan: np.ndarray, ahead: int) -> None:
    """Plays each of the legal moves, and on by `plan`; leaves the state as it was.

    `children.block` receives the state after each move, `children.score` the seconds saved `ahead` accesses later.
    """
    tables, state, options = game.tables, game.state, game.options
    size = len(game.block)
    copy_elements(game.block, 0, children.here, 0, size)
    for move in range(NUM_MOVES):
        if not children.legal[move]:
            continue
        copy_elements(children.here, 0, game.block, 0, size)
        game.look(tables, state, options, ANY_OFFSET, False)  # plans it
        game.make(tables, state, options, move)
        copy_elements(game.block, 0, children.block, move * size, size)
        until = state.now.access
        for _ in range(ahead):
            until = tables.following[until] + 1
            if until > len(plan):
                break
        if until > len(plan):
            until = TO_THE_END
        game.play_until(tables, state, options, plan, children.moves, until)
        children.score[move] = state.now.reward
    copy_elements(children.here, 0, game.block, 0, size)
