"""Greedy players: rules of the game's moves, and buffers taken in order of what they bring for what they take.

- *Rules* (`solvers/common/greedy_rules.py`) decide in program order from what is ahead of an access.
- *Benefit per byte*, *per byte-second* and what lies between fill fast memory buffer by buffer, as a knapsack: the
  seconds that a stay saves, over its bytes and its length to some power. Under `robust` by several clocks. Offsets
  are the game's.
- *Look-ahead* takes the stays in the same order, plays the whole game with and without each, and keeps what helps.
"""

import itertools
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ...env.game.rules import COPY, DROP, NO_COPY
from ...env.game.state import (
    A_BUFFER,
    A_INSTRUCTION,
    A_KIND,
    AF_BENEFIT,
    B_ALIGNED,
    B_INPUT,
    B_LAST_RESULT,
    B_PLAYED,
    B_TRIVIAL,
    IF_CLOCK,
    IF_HBM_RUN,
    L_FAST,
    Tables,
)
from ...env.program.program import OPERAND
from ..common.plan import CROSS_PROGRAM_FETCH, WAIT
from ..common.starts import Start, good_starts
from ..common.task import Plan, Task

# Powers of bytes and of seconds that benefits are divided by: (1, 0) is per byte, (1, 1) per byte-second.
_POWERS = ((1.0, 1.0), (1.0, 0.0), (1.0, 0.5), (0.5, 0.5), (0.5, 0.0), (0.0, 0.0))
# Shares of fast memory that the knapsack fills: offsets waste some.
_FILLED = (1.0, 0.85, 0.7)
# A stay is cut where it is idle for longer than this share of the program's time.
_CUTS = (1.0, 0.1, 0.02, 0.0)


class Stays(NamedTuple):
    """Stays in fast memory that may be chosen. Shapes: `S` stays, `A` accesses.

    Attributes:
      of_access: `[A]` the stay that an access belongs to, or -1.
      first, last: `[S]` instructions.
      size: `[S]` bytes.
      benefit_s: `[S]` seconds that being fast saves.
      seconds: `[S]` how long it lasts, everything in HBM.
      preference: `[A]` the preference of an access whose stay is chosen.
    """

    of_access: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    size: NDArray[np.int64]
    benefit_s: NDArray[np.float64]
    seconds: NDArray[np.float64]
    preference: NDArray[np.int8]


def greedy(task: Task) -> None:
    """Plays everything fast, the knapsacks and all rules; then looks ahead."""
    task.doing = "everything fast"
    task.play(np.full(len(task.tables.access), COPY, np.int8))
    task.doing = "benefit per byte and second"
    for clock, cut in itertools.product(task.clocks, _CUTS):
        if task.done:
            return
        task.take(task.clock(clock))
        _knapsacks(task, make_stays(task.tables, cut))
    task.doing = "greedy rules"
    task.take(task.clock(task.clocks[0]))
    good_starts(task)
    for cut in _CUTS:
        task.doing = f"look-ahead, cut at {cut:g}"
        task.take(task.best_clocked)
        look_ahead(task, make_stays(task.tables, cut))


def random_knapsacks(task: Task, share: float, most: int) -> list[Start]:
    """Fills fast memory as `greedy` does, by clocks, cuts, powers and rooms drawn anew each time, until `share` of the
    budget is spent; offers all.

    Returns:
      The best plans, `most` at most, the best first.
    """
    draw = task.generator
    found: list[Start] = []
    known: dict[tuple[int, int], Stays] = {}
    while not task.done and task.spent < share:
        clock, cut = int(draw.integers(len(task.clocks))), int(draw.integers(len(_CUTS)))
        task.take(task.clock(task.clocks[clock]))
        if (clock, cut) not in known:
            known[clock, cut] = make_stays(task.tables, _CUTS[cut])
        stays = known[clock, cut]
        if not len(stays.size):
            return []
        plan = _knapsack(task, stays, _POWERS[int(draw.integers(len(_POWERS)))], float(draw.uniform(0.6, 1.0)))
        found.append(Start(task.play(plan), task.clocked, plan))
    return sorted(found, key=lambda start: start.seconds)[:most]


# ---- what may stay ---------------------------------------------------------------------------------------------------


def make_stays(tables: Tables, cut: float) -> Stays:
    """Returns the stays of all buffers that may be placed, each cut where it idles for longer than a share `cut` of the
    program."""
    owner, kind = tables.access[:, A_BUFFER], tables.access[:, A_KIND]
    step = tables.access[:, A_INSTRUCTION]
    begin = tables.instruction_f[:, IF_CLOCK]
    end = begin + tables.instruction_f[:, IF_HBM_RUN]
    placeable = (tables.buffer[owner, B_PLAYED] == 1) & (tables.buffer[owner, B_TRIVIAL] == 0)
    number = np.full(len(owner), -1, np.int64)
    stays: list[list[int]] = []
    latest: dict[int, int] = {}
    preference = np.where(kind == OPERAND, COPY, NO_COPY).astype(np.int8)
    for access in np.flatnonzero(placeable).tolist():
        buffer, t = int(owner[access]), int(step[access])
        stay = latest.get(buffer)
        if stay is None or (kind[access] == OPERAND and begin[t] - end[stays[stay][1]] > cut * begin[-1]):
            latest[buffer] = stay = len(stays)
            stays.append([t, t])
        stays[stay][1] = t
        number[access] = stay
    # Whatever a later stay or HBM reads must have been written back.
    for access in np.flatnonzero(placeable & (kind != OPERAND)).tolist():
        if latest[int(owner[access])] != number[access]:
            preference[access] = COPY
    spans = np.array(stays, np.int64).reshape(-1, 2)
    of_stay = np.zeros(len(stays), np.int64)
    of_stay[number[placeable]] = owner[placeable]
    benefit = np.bincount(number[placeable], tables.access_f[placeable, AF_BENEFIT], minlength=len(stays))
    return Stays(
        number,
        spans[:, 0],
        spans[:, 1],
        tables.buffer[of_stay, B_ALIGNED].astype(np.int64),
        benefit.astype(np.float64),
        end[spans[:, 1]] - begin[spans[:, 0]],
        preference,
    )


def plan_of_stays(task: Task, stays: Stays, chosen: NDArray[np.bool_]) -> Plan:
    """Returns the plan in which the accesses of the `chosen` stays (`[S]`) are fast."""
    plan = np.where(chosen[stays.of_access] & (stays.of_access >= 0), stays.preference, DROP).astype(np.int8)
    # The game takes the first input that preferences for it across the boundary: let that be the one that gains most.
    buffer = task.tables.buffer[task.tables.access[:, A_BUFFER]]
    constant = (buffer[:, B_INPUT] == 1) & (buffer[:, B_LAST_RESULT] < 0)
    able = np.flatnonzero((plan == COPY) & constant)
    if len(able):
        best = able[np.argmax(stays.benefit_s[stays.of_access[able]])]
        plan[stays.of_access == stays.of_access[best]] = CROSS_PROGRAM_FETCH
    return plan


def _order(stays: Stays, bytes_power: float, seconds_power: float) -> NDArray[np.int64]:
    """Returns the stays that bring something, best first."""
    cost = stays.size.astype(np.float64) ** bytes_power * np.maximum(stays.seconds, 1e-12) ** seconds_power
    order = np.argsort(-stays.benefit_s / cost, kind="stable")
    return order[stays.benefit_s[order] > 0.0]


# ---- players ---------------------------------------------------------------------------------------------------------


def _knapsacks(task: Task, stays: Stays) -> None:
    for powers, share in itertools.product(_POWERS, _FILLED):
        if task.done or not len(stays.size):
            return
        task.play(_knapsack(task, stays, powers, share))


def _knapsack(task: Task, stays: Stays, powers: tuple[float, float], share: float) -> Plan:
    free = share * (task.tables.limits[L_FAST] - task.game.program.reserved)
    return plan_of_stays(task, stays, take(_order(stays, *powers), stays.first, stays.last, stays.size, free))


@njit(cache=True)
def take(order: np.ndarray, first: np.ndarray, last: np.ndarray, size: np.ndarray, free: np.ndarray) -> np.ndarray:
    """Returns `[S]` which stays are taken: in `order`, whatever fits beside those before; `free` bytes `[T]`."""
    left = free.astype(np.float64)
    chosen = np.zeros(len(first), np.bool_)
    for stay in order:
        fits = True
        for t in range(first[stay], last[stay] + 1):
            if left[t] < size[stay]:
                fits = False
                break
        if fits:
            chosen[stay] = True
            left[first[stay] : last[stay] + 1] -= size[stay]
    return chosen


def look_ahead(task: Task, stays: Stays) -> None:
    """Adds stay by stay to an empty fast memory; then tries to add, to give up, or to wait for
    each in the best plan."""
    if not len(stays.size):
        return
    plan = np.full(len(stays.of_access), DROP, np.int8)
    reached = task.play(plan) if not task.done else np.inf
    for power in _POWERS[:2]:
        for stay in _order(stays, *power).tolist():
            if task.done:
                return
            trial = np.where(stays.of_access == stay, stays.preference, plan).astype(np.int8)
            seconds = task.play(trial)
            if seconds < reached:
                plan, reached = trial, seconds
    for stay in _order(stays, 1.0, 1.0).tolist():
        if task.done or task.best_plan is None:
            return
        mine = stays.of_access == stay
        for preference in (stays.preference, DROP, np.where(stays.preference == COPY, WAIT, stays.preference)):
            trial = np.where(mine, preference, task.best_plan).astype(np.int8)
            if not np.array_equal(trial, task.best_plan):
                task.play(trial)
