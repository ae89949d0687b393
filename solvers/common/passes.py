"""Searches, by single changes, which buffers a loop holds over its passes and which it leaves to each pass.

A walk changes what a plan asks for, not which loop holds which buffer (`env/game/holding.py`), because the tables that
the plan is played on fix that. So between walks, each pair of a buffer and a loop is tried the other way.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...env.game.holding import held_over, releasable
from ...env.game.moves import COPY, DROP
from ...env.game.plan import Plan
from ...env.program.program import OPERAND, Program
from .task import PlanTables, Task


class Found(NamedTuple):
    """A plan `[A]`, the tables that it is played on, and the judged seconds of its game."""

    plan: Plan
    plan_tables: PlanTables
    seconds: float


class Passes:
    """The search.

    Attributes:
      pairs: the pairs of a buffer and a loop to try.
    """

    def __init__(self, task: Task) -> None:
        """Lists the pairs of the task's program, none where it has no loops."""
        self._task = task
        self._accesses = dict(_accesses(task.game.program)) if len(task.game.program.loop_trips) else {}
        buffer = task.tables.buffer
        able = (buffer["played"] == 1) & (buffer["trivial"] == 0)
        self.pairs = sorted(pair for pair in self._accesses if able[pair[0]])
        benefit = np.abs(task.tables.access["benefit"])
        self._at_stake = np.array([benefit[self._accesses[pair]].sum() for pair in self.pairs])

    def improve(self, found: Found, until: float) -> Found:
        """Tries each pair the other way and keeps what is better; ends at `until` of the budget.

        The order is random; pairs with more at stake tend to come sooner.
        """
        task = self._task
        if not self.pairs:
            return found
        task.doing = "what loops hold"
        drawn = self._at_stake * task.generator.standard_exponential(len(self.pairs))
        for number in np.argsort(-drawn, kind="stable").tolist():
            pair = self.pairs[number]
            plan, plan_tables, _ = found
            changed = task.with_per_pass(plan_tables, plan_tables.per_pass ^ {pair})
            for other in self._plans(plan, pair):
                if task.done or task.spent >= until:
                    task.use(found.plan_tables)
                    return found
                task.use(changed)
                seconds = task.play(other)
                if seconds < found.seconds:
                    found = Found(other, changed, seconds)
        task.use(found.plan_tables)
        return found

    def _plans(self, plan: Plan, pair: tuple[int, int]) -> Iterator[Plan]:
        """Yields the plan, the plan with all accesses of the pair fast, and with its operands alone."""
        yield plan
        rows = self._accesses[pair]
        kind = self._task.game.program.access_kind[rows]
        fast = plan.copy()
        fast[rows] = COPY
        yield fast
        if (kind != OPERAND).any():
            read = fast.copy()
            read[rows[kind != OPERAND]] = DROP
            yield read


def _accesses(program: Program) -> Iterator[tuple[tuple[int, int], NDArray[np.int64]]]:
    """Yields each pair that a loop may leave to its passes, with its accesses in that loop."""
    holder, _ = held_over(program)
    for buffer, loop in releasable(program):
        yield (buffer, loop), np.flatnonzero((program.access_buffer == buffer) & (holder == loop))
