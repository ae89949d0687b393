"""The solver `anneal`: simulated annealing over plans, from the best of greedy plans and of XLA's mappings.

Several walks cool side by side (`common/race.py`), and where the budget is long they do so several times
(`common/heats.py`). The temperature falls geometrically. Its unit is the difference in seconds that a single change of
the plan makes.
"""

import numpy as np

from .common.heats import in_heats
from .common.race import Cooling, race
from .common.task import Task
from .common.walk import Walk
from .common.walk_changes import Search
from .starts.plans import best_starts
from .xla.solver import xla_mappings

SEARCH = Search(waits=True, gives_up=True, uniform=0.3, single=0.45, pair=0.15, forward=0.2)
# First and last temperature, in units of `Walk.scale`. The first is lower where the budget allows fewer games per
# access than below: a high temperature then only spoils the start.
_FIRST, _LAST = 0.3, 0.01
_GAMES_PER_ACCESS = 30
# Shares of the budget: the end of trying XLA's algorithm under more settings, and the end of looking for starts.
_XLA_SHARE, _START_SHARE = 0.06, 0.15
# Most walks that race, and the games that the budget must allow each of them.
WALKS, GAMES_PER_WALK = 4, 60.0


def anneal(task: Task) -> None:
    """Anneals from the best starts, in heats of a race."""
    in_heats(task, _anneal, lambda plan: Walk(task, plan, SEARCH), _LAST)


def _anneal(task: Task) -> None:
    task.doing = "starts"
    mappings = list(xla_mappings(task, _XLA_SHARE))
    starts = best_starts(task, _START_SHARE, mappings)
    for mapping in mappings:
        task.offer_mapping(mapping)
    if task.done or not len(task.free):
        return
    race(
        task,
        [(start.plan, start.plan_tables) for start in starts],
        lambda plan: Walk(task, plan, SEARCH),
        Cooling(first_temperature(task), _LAST, WALKS, GAMES_PER_WALK),
    )


def first_temperature(
    task: Task, first: float = _FIRST, last: float = _LAST, games_per_access: float = _GAMES_PER_ACCESS
) -> float:
    """Returns the temperature to begin with, in units of `Walk.scale`.

    Args:
      task: the task, which counts the games that are left.
      first: the highest.
      last: half of the lowest.
      games_per_access: below this many games per free access, the temperature is lower in proportion.
    """
    return float(np.clip(first * task.games_left / (games_per_access * len(task.free)), 2 * last, first))
