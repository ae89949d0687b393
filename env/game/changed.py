"""A changed game: played from the last kept state before the change, and given up where it has no chance."""

import numpy as np

from ..compiled.kernel import routine
from .catch_up import ALIKE, LAGS, CatchUp
from .current import Checkpoints, Current, go_back, pass_point
from .plan import TO_THE_END, PlanGame

# What became of a changed game: judged seconds, or one of these. `SAME`: it makes the moves of the current one.
SAME, GIVEN_UP = -1.0, -2.0
# Points between two at which a game may be given up for being behind, alike or not.
_STRIDE = 4


@routine
def play_changed(
    game: PlanGame,
    kept: Checkpoints,
    current: Current,
    limits: CatchUp,
    first: int,
    last: int,
    alters: bool,
    to_the_end: bool,
    allowed: float,
) -> tuple[int, float]:
    """Plays the game of `current.plan`, which has been changed from access `first` to access `last`.

    Args:
      game, kept, current: the game, its kept states, and the current plan; `current.trial_moves` receives the moves.
      limits: tells when to give up; `limits.behind` receives what is compared.
      first, last: accesses.
      alters: it may be another game even if its moves are those of the current one.
      to_the_end: do not give it up.
      allowed: else it ends where it is further behind, in seconds, than `allowed` and than games regain.

    Returns:
      The point at which it leaves the current game, and its judged seconds, or `SAME` or `GIVEN_UP`.
    """
    tables, state, points = game.tables, game.state, kept.points
    behind, regained = limits.behind, limits.regained
    for lag in range(len(behind)):
        behind[lag] = np.nan
    point = go_back(game, kept, first)
    passed, since = point + 1, 0
    compared = alters
    until = 0
    while until != TO_THE_END:
        until = points[passed] if passed < len(points) else TO_THE_END
        if not compared:
            until = min(until, last + 1)
        access = game.play_until(tables, state, game.options, current.plan, current.trial_moves, until)
        if not compared and access > last:
            compared = True
            if _makes_the_same_moves(game, current, first, last):
                return point, SAME
            if until == last + 1 and not (passed < len(points) and access >= points[passed]):
                continue
        while passed < len(points) and access >= points[passed]:
            pass_point(game, kept, passed, first)
            if points[passed] > last:
                late = kept.rewards[0, passed] - state.now.reward
                lag = since // _STRIDE
                if since % _STRIDE == 0 and lag < LAGS:
                    behind[lag] = late
                    if not to_the_end and late > allowed + regained[0, lag]:
                        return point, GIVEN_UP
                if np.isnan(behind[ALIKE]) and kept.looks[0, passed] == kept.looks[1, passed]:
                    behind[ALIKE] = late
                    if not to_the_end and late > allowed + regained[0, ALIKE]:
                        return point, GIVEN_UP
                since += 1
            passed += 1
    return point, game.judge(tables, game.scoring, state)


@routine
def _makes_the_same_moves(game: PlanGame, current: Current, first: int, last: int) -> bool:
    """Returns whether the changed game makes the moves of the current one from `first` to `last`."""
    tables = game.tables
    access = tables.following[first]
    while access <= last:
        if current.trial_moves[access] != current.moves[access]:
            return False
        access = tables.following[access + 1]
    return True
