"""The solver `anneal`: simulated annealing over plans, from the best of greedy plans and of XLA's mappings.

The temperature falls geometrically. Its unit is the difference in seconds that a single change of the plan makes.
"""

import numpy as np

from .common.task import Task
from .common.walk import Search, Walk
from .starts.plans import best_starts
from .xla.solver import xla_mappings

SEARCH = Search(waits=True, gives_up=True, uniform=0.3, single=0.45, pair=0.15, forward=0.2)
# First and last temperature, in units of `scale_of`. The first is lower where the budget allows fewer games per access
# than below: a high temperature then only spoils the start.
_FIRST, _LAST = 0.3, 0.01
_GAMES_PER_ACCESS = 30
# Shares of the budget: the end of trying XLA's algorithm under more settings, the end of looking for starts, and the
# length of climbing from several of them.
_XLA_SHARE, _START_SHARE, _CLIMB_SHARE = 0.06, 0.15, 0.1


def anneal(task: Task) -> None:
    """Anneals from the best start, then, from a lower temperature, from the best plan found."""
    walk = best_walk(task)
    if walk is None:
        return
    scale = scale_of(walk)
    begun, first = task.spent, first_temperature(task)
    for end in (begun + 0.7 * (1.0 - begun), 1.0):
        while not task.done and task.spent < end:
            passed = (task.spent - begun) / (end - begun)
            temperature = scale * first * (_LAST / first) ** passed
            task.doing = f"temperature {temperature * 1e6:.3g} us"
            walk.step(task.games_per_look(), temperature)
        if task.done:
            return
        walk = Walk(task, walk.best_plan, SEARCH)
        begun, first = task.spent, max(first / 5, 2 * _LAST)


def best_walk(task: Task) -> Walk | None:
    """Returns a walk from the best start, or None if the budget is spent.

    Starts by different clocks are halved by short climbs, round after round, until one is left.
    """
    task.doing = "starts"
    mappings = list(xla_mappings(task, _XLA_SHARE))
    starts = best_starts(task, _START_SHARE, mappings)
    for mapping in mappings:
        task.offer_mapping(mapping)
    if task.done or not len(task.free):
        return None
    walks = []
    for start in starts:
        task.use(start.plan_tables)
        walks.append(Walk(task, start.plan, SEARCH))
    rounds = int(np.ceil(np.log2(len(walks))))  # 0 for one
    while len(walks) > 1:
        task.doing = f"{len(walks)} climbs"
        begun, share = task.spent, _CLIMB_SHARE / rounds / len(walks)
        for place, walk in enumerate(walks, 1):
            while not task.done and task.spent < begun + place * share:
                walk.step(task.games_per_look(), 0.0)
        walks.sort(key=lambda walk: walk.best_s)
        walks = walks[: (len(walks) + 1) // 2]
    return None if task.done else walks[0]


def first_temperature(
    task: Task, first: float = _FIRST, last: float = _LAST, games_per_access: float = _GAMES_PER_ACCESS
) -> float:
    """Returns the temperature to begin with, in units of `scale_of`.

    Args:
      task: the task, which tells how many games are left.
      first: the highest.
      last: half of the lowest.
      games_per_access: the temperature falls in proportion below so many games per free access.
    """
    return float(np.clip(first * task.games_left / (games_per_access * len(task.free)), 2 * last, first))


def scale_of(walk: Walk) -> float:
    """Returns the unit of temperatures in seconds: the median difference, without zeros, that a single change makes."""
    differences = walk.differences()
    return float(np.median(differences)) if len(differences) else 1e-4 * walk.current_s
