"""A batch of games that compiled threads play: observations, moves, and what rewards need, without the interpreter.

Python specifies what each game is to do (`Turn`), threads do it for all games at once, and Python reads the results.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...env.compiled.kernel import kernel, vector
from ...env.compiled.struct import Struct, array, at_address, function, new_record, one, part
from ...env.game import kernels
from ...env.game.game import MallocGame
from ...env.game.moves import NO_MOVE, NUM_MOVES
from ...env.game.outcome import make_scoring
from ...env.game.plan import WAIT, PlanGame, nearest
from ...solvers.common.counterfactual import Rollout, move_outcomes, new_rollout, outcome_ahead
from .threads import Threads

# counterfactual  1: the outcome of each legal move is wanted (`rollout.seconds`), and the move nearest to the plan
# before          1: the outcome is wanted if the opponent plays on before the move
# known           1: that outcome is given, in `before_s`
# after           1: the outcome is wanted if the opponent plays on after the move, or of the game if that is over
# move            the move to make
# nearest         found: the legal move nearest to the plan
# choices         found: what `rules.advance` returns
# before_s, after_s  found: those outcomes, in seconds
_TURN = np.dtype(
    [(name, np.int64) for name in ("counterfactual", "before", "known", "after", "move", "nearest", "choices")]
    + [(name, np.float64) for name in ("before_s", "after_s")]
)


class Turn(Struct):
    """One move of one game. Shapes: `A` accesses, `O` observation size.

    Attributes:
      game: the game.
      rollout: space for rollouts; `rollout.seconds` receives the outcome of each legal move.
      plan, opponent: `[A]` preferences: by which counterfactual games are played on, and by which rewards are counted.
      now: what is wanted, and what is found.
    """

    game: PlanGame = part(PlanGame)
    rollout: Rollout = part(Rollout)
    plan: NDArray[np.int8] = array(np.int8, 1)
    opponent: NDArray[np.int8] = array(np.int8, 1)
    now: Any = one(_TURN)
    advance = function(kernels.advance)
    observe = function(kernels.observe)
    nearest = function(nearest)
    move_outcomes = function(move_outcomes)
    outcome_ahead = function(outcome_ahead)


def new_turn(game: MallocGame, plan: NDArray[np.int8], opponent: NDArray[np.int8]) -> Turn:
    """Returns the turn of a game; nothing is wanted yet."""
    compiled = PlanGame(
        tables=game.tables,
        state=game.state,
        options=game.options,
        block=game.block,
        scoring=make_scoring(game.judge),
    )
    rollout = new_rollout(len(plan), len(game.block))
    return Turn(game=compiled, rollout=rollout, plan=plan, opponent=opponent, now=new_record(_TURN, move=NO_MOVE))


_turn_at = at_address(Turn)


@kernel(vector(np.int64), int, int)
def _play(turns: np.ndarray, first: int, last: int) -> None:
    """Plays the turns at the addresses `turns[first:last]`."""
    for number in range(first, last):
        turn = _turn_at(turns[number])
        game, now = turn.game, turn.now
        if now.counterfactual:
            turn.move_outcomes(game, turn.rollout, turn.plan)
            now.nearest = turn.nearest(game.tables, game.state, game.options, turn.plan[game.state.now.access])
        if now.before:
            now.before_s = turn.outcome_ahead(game, turn.rollout, turn.opponent)
        preference = turn.opponent[game.state.now.access]
        follows = False
        if now.after and now.known and preference != WAIT:
            follows = now.move == turn.nearest(game.tables, game.state, game.options, preference)
        now.choices = turn.advance(game.tables, game.state, game.options, now.move)
        if follows:
            now.after_s = now.before_s  # the opponent would have made the same move
        elif now.after and now.choices == 0:
            now.after_s = game.judge(game.tables, game.scoring, game.state)
        elif now.after:
            now.after_s = turn.outcome_ahead(game, turn.rollout, turn.opponent)


@kernel(vector(np.int64), int, int, vector(np.float32), vector(np.int8))
def _observe(turns: np.ndarray, first: int, last: int, observations: np.ndarray, legal: np.ndarray) -> None:
    """Fills the rows of `observations` and `legal`, both flat, for the games of `turns[first:last]`."""
    size = len(observations) // len(turns)
    for number in range(first, last):
        turn = _turn_at(turns[number])
        game = turn.game
        row = observations[number * size : (number + 1) * size]
        turn.observe(game.tables, game.state, game.options, row)
        for move in range(NUM_MOVES):
            legal[number * NUM_MOVES + move] = game.options.legal[move]


def play_turn(turn: Turn) -> None:
    """Plays one turn, in this thread."""
    _play(np.array([turn.address], np.int64), 0, 1)


class Crew(Threads):
    """Threads that play the games of a batch together."""

    def play(self, turns: Sequence[Turn]) -> None:
        """Plays a turn of each game."""
        self.share(_play, _addresses(turns))

    def observe(self, turns: Sequence[Turn], observations: NDArray[np.float32], legal: NDArray[np.bool_]) -> None:
        """Fills `observations[B, O]` and `legal[B, M]`, contiguous, from games that stand before a decision."""
        self.share(_observe, _addresses(turns), observations.reshape(-1), legal.view(np.int8).reshape(-1))


def _addresses(turns: Sequence[Turn]) -> NDArray[np.int64]:
    return np.array([turn.address for turn in turns], np.int64)
