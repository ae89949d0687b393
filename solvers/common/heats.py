"""Divides a long budget into heats: runs of a solver that begin from scratch, each with its own random numbers.

An annealing walk ends in the basin that its start and chance have led it to. Beyond a certain number of games per
access, a longer walk ends no lower, but another walk may. At the end, the best plan is crossed with the plans of the
other heats, and a last walk continues from the result.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ...env.game.moves import COPY
from ...env.game.plan import Plan
from .budget import Status
from .crossing import cross
from .race import Walker
from .task import Best, Task

# A heat has at least this many seconds, and about this many whole games per access. Shorter ones end no lower.
_SECONDS, _GAMES_PER_ACCESS = 10.0, 8.0
_MOST = 6
# Share of the budget for crossing the plans of the heats and for the last walk.
_LAST_SHARE = 0.03
# Games that are played to see how long one takes.
_TIMED_GAMES = 8


def in_heats(task: Task, solver: Callable[[Task], None], begin: Callable[[Plan], Walker], cold: float) -> None:
    """Spends the budget on heats of a solver, or on a single one if the budget is short.

    Other processes that search the same program see what a heat has found once it is over. Their own finds are used
    only at the end: earlier, they would draw later heats into the basin of the first.

    Args:
      task: the task.
      solver: plays a heat.
      begin: begins the last walk from a plan `[A]`, on the tables that the task uses.
      cold: the last walk's temperature, in units of its `scale`.
    """
    count = _count(task)
    if count == 1:
        solver(task)
        return
    found: list[Best] = []
    for number in range(count):
        share = (1.0 - _LAST_SHARE - task.spent) / (count - number)
        if task.done or share <= 0.0:
            break
        heat = _heat(task, share, f"heat {number + 1} of {count}: ")
        solver(heat)
        task.evaluations += heat.evaluations
        found.append(heat.best)
        _offer(task, heat.best)
        if task.exchange is not None and heat.best.plan is not None:
            task.exchange.offer(heat.best.seconds, plan=heat.best.plan)
    plans = sorted((best for best in found if best.plan is not None), key=lambda best: best.seconds)
    if plans and not task.done:
        walk = begin(_crossed(task, plans))
        temperature = cold * walk.scale
        task.doing = f"temperature {temperature * 1e6:.3g} us"
        while not task.done:
            walk.step(max(1, task.games_per_look()), temperature)


def _count(task: Task) -> int:
    """Returns the number of heats."""
    seconds = task.budget.seconds
    if seconds is None or seconds < 2 * _SECONDS or not len(task.free):
        return 1
    begun = task.seconds
    plan = np.full(len(task.tables.access), COPY, np.int8)
    for _ in range(_TIMED_GAMES):
        task.play(plan)
    games = _TIMED_GAMES * task.seconds_left / max(task.seconds - begun, 1e-9)
    return max(1, round(min(seconds // _SECONDS, games / (_GAMES_PER_ACCESS * len(task.free)), _MOST)))


def _heat(task: Task, share: float, doing: str) -> Task:
    """Returns a task with a share of the budget that reports its progress as a part of `task`'s."""

    def whole(status: Status) -> Status:
        return replace(
            status,
            seconds=task.seconds,
            evaluations=task.evaluations + status.evaluations,
            best_s=min(task.best_s, status.best_s),
            doing=doing + status.doing,
        )

    heat = task.part(share, lambda: task.over, whole)
    heat.exchange = None
    return heat


def _offer(task: Task, best: Best) -> None:
    if best.plan is not None:
        task.use(best.plan_tables)
        task.offer(best.plan, best.seconds)
    elif best.mapping is not None:
        task.offer_mapping(best.mapping)


def _crossed(task: Task, found: list[Best]) -> Plan:
    """Returns the first plan, with what the other plans and those of other processes do better."""
    best = found[0]
    assert best.plan is not None
    others = [other.plan for other in found[1:] if other.plan is not None]
    if task.exchange is not None:
        others += [find["plan"] for _, find in task.exchange.finds()]
    task.use(best.plan_tables)
    task.doing = f"crossing {1 + len(others)} plans"
    return cross(task, best.plan, best.seconds, others, 1.0)[0]
