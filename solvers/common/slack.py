"""How a game follows a mapping best: when copies run, and how much idle time prefetches look for.

Under `robust` the game's clock blends two cost models that disagree on how long instructions run, so no slack is right
for all programs: with too little, copies come late by one of them; with too much, they hold memory that others need.
With the mapping's own times most programs follow it nearly exactly; on some the game's times are better than XLA's.
"""

import itertools

import numpy as np
from numpy.typing import NDArray

from ...env.game.game import COPY, NO_COPY, MallocGame
from ...env.game.rules import reset
from ...env.game.state import HINTS, R_SLACK
from ...env.program.mapping import Mapping
from ...env.program.program import OPERAND, Program
from .follow import plan_of_mapping, without_times
from .line import rollout
from .outcome import make_scoring, outcome
from .plan import WAIT, next_placeable

# Tried in this order, in multiples of a copy's need. XLA prefers twice the time that a copy takes, too.
SLACKS = (2.0, 1.0, 5.0, 8.0)
# Under `robust` a wait may cost ten times the benefits.
PATIENCE = 10.0


def preferences_of_mapping(program: Program, mapping: Mapping) -> NDArray[np.int8]:
    """Returns `[A]` the preferences for moves of the game that come nearest to a mapping."""
    preferences = plan_of_mapping(program, mapping)
    waits = preferences == WAIT  # which is no move
    preferences[waits] = np.where(program.access_kind == OPERAND, COPY, NO_COPY)[waits]
    return preferences


def take_best_rules(game: MallocGame, mapping: Mapping) -> None:
    """Gives `game`, which begins anew, the slack of `SLACKS` with which following `mapping` comes to least, and keeps
    or drops the times that the game's hints give to copies."""
    preferences, scoring, following = (
        preferences_of_mapping(game.program, mapping),
        make_scoring(game),
        next_placeable(game.tables),
    )
    access, rates = game.tables.access, game.tables.rates
    hints = access[:, HINTS].copy()
    rules = list(itertools.product((hints, without_times(hints)), SLACKS))
    seconds = []
    for hinted, slack in rules:
        access[:, HINTS], rates[R_SLACK] = hinted, slack
        reset(game.tables, game.state)
        rollout(game.tables, game.state, game.legal, following, preferences)
        seconds.append(outcome(game.tables, scoring, game.state))
    access[:, HINTS], rates[R_SLACK] = rules[int(np.argmin(seconds))]
    game.reset()
