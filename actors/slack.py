"""How much idle time prefetches look for: as much as following XLA's own mapping takes.

Under `robust` the game's clock blends two cost models that disagree on how long instructions run, so no slack is right
for all programs: with too little, copies come late by one of them; with too much, they hold memory that others need.
"""

import numpy as np
from numpy.typing import NDArray

from ..env.core import reset
from ..env.game import COPY, NO_COPY, MallocGame
from ..env.layout import R_SLACK
from ..env.mapping import Mapping
from ..env.program import OPERAND, Program
from .line import rush
from .solvers.follow import plan_of_mapping
from .solvers.outcome import make_scoring, outcome
from .solvers.plan import WAIT, next_placeable

# Tried in this order, in multiples of a copy's need. XLA prefers twice the time that a copy takes, too.
SLACKS = (2.0, 1.0, 5.0, 8.0)
# Under `robust` a wait may cost ten times the benefits.
PATIENCE = 10.0


def wishes_of_mapping(program: Program, mapping: Mapping) -> NDArray[np.int8]:
    """Returns `[A]` the wishes for moves of the game that come nearest to a mapping."""
    wishes = plan_of_mapping(program, mapping)
    waits = wishes == WAIT  # which is no move
    wishes[waits] = np.where(program.access_kind == OPERAND, COPY, NO_COPY)[waits]
    return wishes


def take_best_slack(game: MallocGame, mapping: Mapping) -> None:
    """Gives `game`, which begins anew, the slack of `SLACKS` with which following `mapping` comes to least."""
    wishes, scoring, following = (
        wishes_of_mapping(game.program, mapping),
        make_scoring(game),
        next_placeable(game.tables),
    )
    rates = game.tables.rates
    seconds = []
    for slack in SLACKS:
        rates[R_SLACK] = slack
        reset(game.tables, game.state)
        rush(game.tables, game.state, game.legal, following, wishes)
        seconds.append(outcome(game.tables, scoring, game.state))
    rates[R_SLACK] = SLACKS[int(np.argmin(seconds))]
    game.reset()
