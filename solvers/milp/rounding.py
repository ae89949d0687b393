"""Plans rounded from a solution of the model: by a threshold, at random, or crossed with the best plan."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...env.bounds.placement import Placement
from ...env.game.moves import COPY, DROP, NO_COPY
from ...env.game.plan import CROSS_PROGRAM_FETCH, WAIT, Plan
from ...env.program.program import OPERAND
from ..common.task import Task

# The part of a plan that a crossing replaces: a share of its accesses in a row, or a number of buffers, at most.
_LONGEST_PART = 0.25
_MOST_BUFFERS = 8
# Share of the crossings whose accesses prefer to wait.
_WAITING = 0.3


@dataclass(frozen=True, eq=False)
class Shares:
    """A solution of the model, per access. Shape: `A` accesses.

    Attributes:
      fast: `[A]` share that is served from fast memory; 0 where it may not be fast, -1 where the model leaves its
        buffer out.
      preference: `[A]` preference of an access that is fast.
      across: `[A]` share of its buffer that the previous execution prefetches.
    """

    fast: NDArray[np.float64]
    preference: NDArray[np.int8]
    across: NDArray[np.float64]


def shares_of(task: Task, placement: Placement, values: NDArray[np.float64]) -> Shares:
    """Returns the shares of each access in a solution, `values` of the model's columns."""
    program = task.game.program
    accesses = program.num_accesses
    fast, across = np.zeros(accesses), np.zeros(accesses)
    preference = np.full(accesses, COPY, np.int8)
    touches = zip(program.access_instruction.tolist(), program.access_buffer.tolist(), strict=True)
    for access, touch in enumerate(touches):
        column = placement.fast.get(touch)
        if column is None:
            fast[access] = -1.0 if touch[1] in placement.left_out else 0.0
            continue
        fast[access] = values[column]
        if program.access_kind[access] != OPERAND:
            written_back = placement.in_hbm[touch].at(values) >= 0.5
            preference[access] = COPY if written_back else NO_COPY
        elif touch[1] in placement.cross_program:
            across[access] = values[placement.cross_program[touch[1]]]
    return Shares(fast, preference, across)


def rounded(task: Task, shares: Shares, threshold: float | NDArray[np.float64], waits: bool = False) -> Plan:
    """Returns the plan in which the accesses with a share of at least a threshold prefer to be fast.

    Args:
      task: the task.
      shares: a solution.
      threshold: one, or `[A]`.
      waits: operands prefer to be fast at the price of any wait.
    """
    plan = np.where(shares.fast >= threshold, shares.preference, DROP).astype(np.int8)
    if waits:
        plan[(plan == COPY) & (task.game.program.access_kind == OPERAND)] = WAIT
    plan[(plan != DROP) & (shares.across >= np.maximum(threshold, 0.5))] = CROSS_PROGRAM_FETCH
    plan[shares.fast < 0.0] = NO_COPY
    return plan


def cross(task: Task, pool: list[Shares]) -> None:
    """Plays the best plan with a part of it replaced by a random rounding of some solution.

    Thresholds are drawn per buffer, so that all accesses of a buffer are rounded in the same way.
    """
    draw, program = task.generator, task.game.program
    shares = pool[int(draw.integers(len(pool)))]
    waits = bool(draw.random() < _WAITING)
    plan = rounded(task, shares, draw.random(program.num_buffers)[program.access_buffer], waits)
    known = task.best_plan
    if known is not None:
        task.use(task.best_tables)
        keep = np.ones(len(plan), bool)
        if draw.random() < 0.5:
            length = 1 + int(draw.random() ** 2 * _LONGEST_PART * len(plan))
            begin = int(draw.integers(len(plan)))
            keep[begin : begin + length] = False
        else:
            buffers = program.access_buffer[draw.choice(task.free, int(draw.integers(1, _MOST_BUFFERS + 1)))]
            keep[np.isin(program.access_buffer, buffers)] = False
        plan[keep] = known[keep]
        if np.array_equal(plan, known):
            task.evaluations += 1  # no new plan: counts all the same, so that the budget ends
            return
    task.play(plan)
