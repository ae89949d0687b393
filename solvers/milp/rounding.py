"""From the shares of a relaxation or a mixed-integer solution to plans: by a threshold, at random, or in parts."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...env.bounds.placement import Placement
from ...env.game.rules import COPY, DROP, NO_COPY
from ...env.program.program import OPERAND
from ..common.plan import CROSS_PROGRAM_FETCH, WAIT
from ..common.task import Plan, Task

# How much of a plan a crossing replaces: accesses in a row, or this many buffers.
_LONGEST_PART = 0.25
_MOST_BUFFERS = 8
# How often the accesses of a crossing preference to wait.
_WAITING = 0.3


@dataclass(frozen=True, eq=False)
class Shares:
    """What a solution says of each access. Shape: `A` accesses.

    Attributes:
      fast: `[A]` the share that is served from fast memory; -1 where the model leaves the buffer out and it may stay
        where it is, 0 where it may not be fast.
      preference: `[A]` the preference of an access that is fast.
      across: `[A]` the share of the buffer that the previous execution prefetches.
    """

    fast: NDArray[np.float64]
    preference: NDArray[np.int8]
    across: NDArray[np.float64]


def shares_of(task: Task, placement: Placement, values: NDArray[np.float64]) -> Shares:
    """Returns what the values of a model's columns say of each access."""
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
        elif touch[1] in placement.ahead:
            across[access] = values[placement.ahead[touch[1]]]
    return Shares(fast, preference, across)


def rounded(task: Task, shares: Shares, threshold: float | NDArray[np.float64], waits: bool = False) -> Plan:
    """Returns the plan that preferences for every share of at least `threshold` (one, or `[A]`) to be fast; with `waits`,
    operands at the price of any wait."""
    plan = np.where(shares.fast >= threshold, shares.preference, DROP).astype(np.int8)
    if waits:
        plan[(plan == COPY) & (task.game.program.access_kind == OPERAND)] = WAIT
    plan[(plan != DROP) & (shares.across >= np.maximum(threshold, 0.5))] = CROSS_PROGRAM_FETCH
    plan[shares.fast < 0.0] = NO_COPY
    return plan


def cross(task: Task, pool: list[Shares]) -> None:
    """Plays the best plan with a part of it replaced by a random rounding of some solution.

    Thresholds are drawn per buffer, so that a buffer's accesses are rounded alike.
    """
    draw, program = task.generator, task.game.program
    shares = pool[int(draw.integers(len(pool)))]
    waits = bool(draw.random() < _WAITING)
    plan = rounded(task, shares, draw.random(program.num_buffers)[program.access_buffer], waits)
    known = task.best_plan
    if known is not None:
        task.take(task.best_clocked)
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
            task.evaluations += 1  # nothing to play: still a turn, so that the budget ends
            return
    task.play(plan)
