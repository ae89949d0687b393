"""A position of the residency game: a plan and the game that it makes, in compiled code.

`Position` holds the game, the plan, states kept along the game, and the changes; `outcomes` and `make` play changed
games from the last kept state before the change.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from ..compiled.block import copy_elements
from ..compiled.kernel import kernel, routine, vector
from ..compiled.struct import Struct, array, new_record, one, part, rows
from ..game.catch_up import ALWAYS_PLAYED, FIRST_PLAYED, LAGS, CatchUp, learn, new_catch_up
from ..game.current import Checkpoints, Current, accept, begin_game, go_back, new_checkpoints, new_current, pass_point
from ..game.plan import TO_THE_END, Plan, PlanGame
from .changes import EXTENT, Changes, list_changes, make_change

_PLAYED_EVERY = round(1 / ALWAYS_PLAYED)


class Board(Struct):
    """A position. Shapes: `A` accesses.

    Attributes:
      game: the game that follows plans.
      kept: states along the current game.
      current: the current plan and its game.
      changes: the moves.
      before: `[A]` the current plan, while a change is tried.
      extent: of the change that is tried.
      limits, behind: for giving up changed games (`env/game/catch_up.py`).
    """

    game: PlanGame = part(PlanGame)
    kept: Checkpoints = part(Checkpoints)
    current: Current = part(Current)
    changes: Changes = part(Changes)
    before: Plan = array(np.int8, 1)
    extent: Any = one(EXTENT)
    limits: CatchUp = part(CatchUp)
    behind: NDArray[np.float64] = rows(np.float64)


# The result of a changed game: judged seconds, or one of these.
_SAME, _GIVEN_UP = -1.0, -2.0
_NO_CHANCE = np.random.default_rng(0)


class PlayedGame(NamedTuple):
    """The current game of a walk, which a position may share."""

    kept: Checkpoints
    current: Current
    limits: CatchUp


class Position:
    """A position; its state is the state of the game it was made from, which others may use in between.

    Attributes:
      changes: the moves.
    """

    def __init__(
        self, game: PlanGame, plan: Plan, changes: Changes | None = None, played: PlayedGame | None = None
    ) -> None:
        """Plays `plan[A]`, or goes on with its game, `played`, which others change too. Positions of one program may
        share their `changes`."""
        self.changes = list_changes(game.tables) if changes is None else changes
        shared = played is not None
        if played is None:
            played = PlayedGame(new_checkpoints(game), new_current(plan), new_catch_up())
        self.board = Board(
            game=game,
            kept=played.kept,
            current=played.current,
            changes=self.changes,
            before=plan.copy(),
            extent=new_record(EXTENT),
            limits=played.limits,
            behind=np.zeros(LAGS),
        )
        if not shared:
            self.start(plan)

    @property
    def plan(self) -> Plan:
        """`[A]` the current plan."""
        return self.board.current.plan

    @property
    def seconds(self) -> float:
        """Judged seconds of the current game."""
        return float(self.board.current.seconds[0])

    @property
    def best_plan(self) -> Plan:
        """`[A]` the best plan since the start."""
        return self.board.current.best_plan

    @property
    def best_seconds(self) -> float:
        """Judged seconds of the best game since the start."""
        return float(self.board.current.seconds[1])

    def start(self, plan: Plan) -> None:
        """Makes the game of `plan[A]` the current one, and the best."""
        current = self.board.current
        current.plan[:] = current.best_plan[:] = plan
        current.seconds[:] = begin_game(self.board.game, self.board.kept, current)

    def outcomes(self, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        """Returns `[K]` judged seconds after each of the changes `numbers[K]`; NaN for one that changes no move."""
        seconds = np.empty(len(numbers))
        try_changes(self.board, numbers, seconds)
        return seconds

    def make(self, number: int) -> None:
        """Makes a change."""
        make(self.board, number)

    def climb(
        self,
        numbers: NDArray[np.int64],
        tried: NDArray[np.float64],
        temperature: float = 0.0,
        generator: np.random.Generator | None = None,
    ) -> int:
        """Tries the changes `numbers[K]` one after the other and keeps each that does no harm.

        `tried[K]` receives the judged seconds of each, NaN for one that changes no move, infinity for a game that fell
        behind and was given up. At a `temperature` in seconds, which takes a `generator`, a worse game is kept by
        chance. Returns the games that were played, those given up among them.
        """
        return int(_climb(self.board, numbers, tried, temperature, _NO_CHANCE if generator is None else generator))


@routine
def _try(board: Board, number: int, to_the_end: bool, allowed: float) -> tuple[int, int, float]:
    """Makes a change in the plan and plays the changed game; `before` keeps the plan.

    Returns the point at which it leaves the current game, the points compared, and its judged seconds, or `_SAME` or
    `_GIVEN_UP`: if not `to_the_end`, it ends where it has fallen further behind than `allowed` seconds and than games
    regain.
    """
    game, kept, current, extent = board.game, board.kept, board.current, board.extent
    tables, state, plan = game.tables, game.state, current.plan
    points = kept.points
    copy_elements(plan, 0, board.before, 0, len(plan))
    make_change(tables, board.changes, number, plan, extent)
    if extent.first < 0:
        return 0, 0, _SAME
    last = extent.last
    point = go_back(game, kept, extent.first)
    passed = point + 1
    lag = 0
    compared = extent.waits == 1
    until = 0
    while until != TO_THE_END:
        until = points[passed] if passed < len(points) else TO_THE_END
        if not compared:
            until = min(until, last + 1)
        access = game.play_until(tables, state, game.options, plan, current.trial_moves, until)
        if not compared and access > last:
            compared = True
            if _is_same(board):
                return point, lag, _SAME
            if until == last + 1 and not (passed < len(points) and access >= points[passed]):
                continue
        while passed < len(points) and access >= points[passed]:
            pass_point(game, kept, passed, extent.first)
            if points[passed] > last and lag < LAGS:
                board.behind[lag] = kept.rewards[0, passed] - state.now.reward
                if not to_the_end and board.behind[lag] > allowed + board.limits.regained[0, lag]:
                    return point, lag, _GIVEN_UP
                lag += 1
            passed += 1
    return point, lag, game.judge(tables, game.scoring, state)


@routine
def _is_same(board: Board) -> bool:
    """Returns whether the changed game makes the moves of the current one up to the last change."""
    tables, current, extent = board.game.tables, board.current, board.extent
    access = tables.following[extent.first]
    while access <= extent.last:
        if current.trial_moves[access] != current.moves[access]:
            return False
        access = tables.following[access + 1]
    return True


@kernel(Board, vector(np.int64), vector(np.float64))
def try_changes(board: Board, numbers: np.ndarray, seconds: np.ndarray) -> None:
    """Fills `seconds[K]` with the judged seconds after each of the changes `numbers[K]`; NaN for one that changes no
    move, or that is below 0."""
    plan = board.current.plan
    for k in range(len(numbers)):
        seconds[k] = np.nan
        if numbers[k] < 0:
            continue
        _, _, judged = _try(board, numbers[k], True, 0.0)
        if judged > 0.0:
            seconds[k] = judged
        copy_elements(board.before, 0, plan, 0, len(plan))


@kernel(Board, int, returns=bool)
def make(board: Board, number: int) -> bool:
    """Makes a change. Returns whether it changes a move: the state is then the end of the current game."""
    point, _, judged = _try(board, number, True, 0.0)
    if judged > 0.0:
        accept(board.kept, board.current, point, board.extent.first, judged)
    return bool(judged > 0.0)


@kernel(Board, vector(np.int64), vector(np.float64), float, types.npy_rng, returns=int)
def _climb(
    board: Board, numbers: np.ndarray, tried: np.ndarray, temperature: float, generator: np.random.Generator
) -> int:
    plan, seconds, limits = board.current.plan, board.current.seconds, board.limits
    games = 0
    for k in range(len(numbers)):
        to_the_end = limits.played[0] < FIRST_PLAYED or k % _PLAYED_EVERY == 0
        # Draw now how much worse the game may be and still be kept.
        allowed = -temperature * np.log(max(generator.random(), 1e-300)) if temperature > 0.0 else 0.0
        point, lags, judged = _try(board, numbers[k], to_the_end, allowed)
        tried[k] = judged
        if judged == _SAME:
            tried[k] = np.nan
        elif judged == _GIVEN_UP:
            tried[k] = np.inf
            games += 1
        else:
            games += 1
            if to_the_end:
                limits.played[0] += 1
                learn(limits.regained, board.behind, lags, judged - seconds[0], limits.played[0])
            if judged <= seconds[0] + allowed:
                accept(board.kept, board.current, point, board.extent.first, judged)
                continue
        copy_elements(board.before, 0, plan, 0, len(plan))
    return games
