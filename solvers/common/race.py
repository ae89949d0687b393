"""A race of walks: several walks cool side by side, take over what the others found, and leave one by one.

A single walk ends where chance leads it. So after every round the best walk is crossed with all others and continues
from the result; then the worst walk leaves, and the others share its time. If other processes race on the same program,
the best walk is also crossed with theirs, and the last walk at two more points.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from ...env.game.plan import Plan
from .crossing import cross
from .passes import Found, Passes
from .task import PlanTables, Task

# Largest share of the budget for crossing after a round, and for trying what loops hold.
_CROSS_SHARE = 0.04
# The ends of the rounds, as shares of the race, and the walks in each: one leaves after every round, ...
_PATIENT = ((0.2, 4), (0.4, 3), (0.6, 2), (1.0, 1))
# ... or sooner, by the first of these, if the budget allows fewer games per access than the second: depth then counts
# for more.
_HASTY, _HASTY_GAMES_PER_ACCESS = ((0.08, 3), (0.2, 2), (1.0, 1)), 0.3
# Further rounds of the last walk, to take over what other processes have found.
_SHARED = (0.75, 0.9)


class Walker(Protocol):
    """A walk as a race sees it."""

    plan_tables: PlanTables

    @property
    def best_s(self) -> float:
        """Judged seconds of the best game."""

    @property
    def best_plan(self) -> Plan:
        """`[A]` the plan of the best game."""

    @property
    def scale(self) -> float:
        """The unit of temperatures in seconds."""

    def step(self, games: int, temperature: float) -> None:
        """Plays changed games at a temperature in seconds."""


class Cooling(NamedTuple):
    """The schedule of a race.

    Attributes:
      hot, cold: first and last temperature, in units of a walk's `scale`.
      walks: at the beginning, at most.
      games_per_walk: fewer begin where the rest of the budget allows fewer games than this for each.
    """

    hot: float
    cold: float
    walks: int
    games_per_walk: float


def race(task: Task, starts: Sequence[tuple[Plan, PlanTables]], begin: Callable[[Plan], Walker], by: Cooling) -> None:
    """Spends the rest of the budget on walks from the first of `starts`, reusing them if there are more walks.

    Args:
      task: the task.
      starts: plans `[A]` with the tables that they are played on, the best first; at least one.
      begin: begins a walk from a plan, on the tables that the task uses.
      by: the schedule.
    """
    passes = Passes(task)
    starts = [_start_with_better_passes(task, passes, *starts[0]), *starts[1:]]
    begun, played = task.spent, task.evaluations
    walks, scales = [], []
    for number in range(_count(task, by)):
        plan, plan_tables = starts[number % len(starts)]
        if task.done:
            return
        task.use(plan_tables)
        walks.append(begin(plan))
        scales.append(walks[-1].scale)
    games_left = (task.evaluations - played) * (1.0 - task.spent) / max(task.spent - begun, 1e-9)
    hasty = games_left < _HASTY_GAMES_PER_ACCESS * len(task.free)
    rounds = list(_HASTY if hasty else _PATIENT)
    if task.exchange is not None:
        rounds[-1:-1] = [(end, 1) for end in _SHARED]
    for end, most in rounds:
        kept = np.argsort([walk.best_s for walk in walks], kind="stable")[:most]
        walks, scales = [walks[k] for k in kept], [scales[k] for k in kept]
        _round(task, walks, scales, begun, begun + (1.0 - begun) * end, by)
        if task.done:
            return
        best = int(np.argmin([walk.best_s for walk in walks]))
        if len(walks) > 1 or task.exchange is not None:
            walks[best] = _crossed(task, walks, best, begin)
            walks[best] = _with_better_passes(task, walks[best], passes, begin)


def _count(task: Task, by: Cooling) -> int:
    return int(np.clip(task.games_left / by.games_per_walk, 1, by.walks))


def _round(task: Task, walks: Sequence[Walker], scales: Sequence[float], begun: float, end: float, by: Cooling) -> None:
    """Lets the walks take turns until `end` of the budget is spent; the walk that has had the least is next."""
    had = np.zeros(len(walks))
    while not task.done and task.spent < end:
        number, before = int(np.argmin(had)), task.spent
        passed = min(1.0, (before - begun) / max(1.0 - begun, 1e-9))
        temperature = scales[number] * by.hot * (by.cold / by.hot) ** passed
        several = "" if len(walks) == 1 else f"{len(walks)} walks, "
        task.doing = f"{several}temperature {temperature * 1e6:.3g} us"
        walks[number].step(max(1, task.games_per_look() // 2), temperature)
        had[number] += task.spent - before


def _start_with_better_passes(
    task: Task, passes: Passes, plan: Plan, plan_tables: PlanTables
) -> tuple[Plan, PlanTables]:
    if task.done or not passes.pairs:
        return plan, plan_tables
    task.use(plan_tables)
    found = passes.improve(Found(plan, plan_tables, task.play(plan)), min(1.0, task.spent + _CROSS_SHARE))
    return found.plan, found.plan_tables


def _with_better_passes(task: Task, walk: Walker, passes: Passes, begin: Callable[[Plan], Walker]) -> Walker:
    """Returns a walk on tables by which loops hold other buffers; the walk itself if that gains nothing."""
    if task.done:
        return walk
    found = passes.improve(Found(walk.best_plan, walk.plan_tables, walk.best_s), min(1.0, task.spent + _CROSS_SHARE))
    return walk if task.done or not found.seconds < walk.best_s else begin(found.plan)


def _crossed(task: Task, walks: Sequence[Walker], best: int, begin: Callable[[Plan], Walker]) -> Walker:
    """Returns a walk from the best plan, crossed with those of the others and of other processes; the walk itself if
    that gains nothing."""
    walk = walks[best]
    others = sorted((other for other in walks if other is not walk), key=lambda other: other.best_s)
    task.use(walk.plan_tables)
    plans = [other.best_plan for other in others]
    if task.exchange is not None:
        task.exchange.offer(walk.best_s, plan=walk.best_plan)
        plans += [find["plan"] for _, find in task.exchange.finds()]
    task.doing = f"crossing {1 + len(plans)} plans"
    plan, seconds = cross(task, walk.best_plan, walk.best_s, plans, min(1.0, task.spent + _CROSS_SHARE))
    return walk if task.done or not seconds < walk.best_s else begin(plan)
