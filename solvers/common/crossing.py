"""Crosses plans: takes from other plans the stretches and buffers that make a plan better.

Walks with different starts find good decisions in different parts of a program. A plan states preferences, and the game
turns them into legal moves, so a part of one plan keeps its meaning within another. Each difference is judged by a
whole game.
"""

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from ...env.game.plan import Plan
from .task import Task

# The differences are taken over in this many stretches of the program, from halves to small ones, ...
_STRETCHES = (2, 4, 8, 16)
# ... then in this many random groups of buffers, and in stretches once more.
_GROUPS = (8, 32)


def cross(task: Task, plan: Plan, seconds: float, others: Iterable[Plan], until: float) -> tuple[Plan, float]:
    """Takes over differences from `others[A]`, one by one, wherever the game gains by it.

    Args:
      task: the task; games are played on the tables that it uses now, and offered.
      plan: `[A]` the plan to improve.
      seconds: the judged seconds of its game on these tables.
      others: plans to take from, in this order.
      until: share of the budget at which it ends.

    Returns:
      The improved plan, `plan` itself if nothing helped, and its judged seconds.
    """
    for other in others:
        for parts, by_buffer in _ways():
            different = np.flatnonzero(plan != other)
            if not len(different):
                break
            for part in _parts(task, different, parts, by_buffer):
                if task.done or task.spent >= until:
                    return plan, seconds
                crossed = plan.copy()
                crossed[part] = other[part]
                crossed_s = task.play(crossed)
                if crossed_s < seconds:
                    plan, seconds = crossed, crossed_s
    return plan, seconds


def _ways() -> Iterator[tuple[int, bool]]:
    """Yields a number of parts, and whether a part is a group of buffers."""
    for parts in _STRETCHES:
        yield parts, False
    for parts in _GROUPS:
        yield parts, True
    yield _GROUPS[-1], False


def _parts(task: Task, different: NDArray[np.int64], parts: int, by_buffer: bool) -> list[NDArray[np.int64]]:
    """Divides the accesses `different[D]` into at most `parts` parts."""
    if not by_buffer:
        return np.array_split(different, min(parts, len(different)))
    buffer = task.game.program.access_buffer[different]
    drawn = task.generator.permutation(np.unique(buffer))
    return [different[np.isin(buffer, group)] for group in np.array_split(drawn, min(parts, len(drawn)))]
