"""The solver `greedy`: knapsacks of stays, greedy rules of the game, and look-ahead.

- *Knapsacks* fill fast memory stay by stay, in the order of the seconds that a stay saves over its bytes and length,
  each to some power: benefit per byte, benefit per byte-second, and ratios between them. The game chooses the offsets.
  Under `robust` they are repeated by several clocks.
- *Rules* (`solvers/common/greedy_rules.py`) decide in program order, from the accesses ahead.
- *Look-ahead* takes the stays in the same order as a knapsack, plays the whole game with and without each, and keeps
  the better plan.
"""

import itertools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...env.compiled.kernel import kernel, vector
from ...env.game.moves import COPY, DROP, NO_COPY
from ...env.game.tables import Tables
from ...env.program.program import OPERAND
from ..common.plan import CROSS_PROGRAM_FETCH, WAIT, Plan
from ..common.starts import Start, good_starts
from ..common.task import Task

# Powers of bytes and of seconds by which benefits are divided: (1, 0) is per byte, (1, 1) per byte-second.
_POWERS = ((1.0, 1.0), (1.0, 0.0), (1.0, 0.5), (0.5, 0.5), (0.5, 0.0), (0.0, 0.0))
# Shares of fast memory that a knapsack fills: offsets waste the rest.
_FILLED = (1.0, 0.85, 0.7)
# A stay is cut where it is not used for longer than this share of the program's time.
_CUTS = (1.0, 0.1, 0.02, 0.0)


class Stays(NamedTuple):
    """Candidates for stays in fast memory. Shapes: `S` stays, `A` accesses.

    Attributes:
      of_access: `[A]` the stay that an access belongs to, or -1.
      first, last: `[S]` first and last instruction.
      size: `[S]` bytes.
      benefit_s: `[S]` seconds that the stay saves.
      seconds: `[S]` length with everything in HBM.
      preference: `[A]` preference of an access whose stay is chosen.
    """

    of_access: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    size: NDArray[np.int64]
    benefit_s: NDArray[np.float64]
    seconds: NDArray[np.float64]
    preference: NDArray[np.int8]


def greedy(task: Task) -> None:
    """Plays everything fast, the knapsacks and all greedy rules; then looks ahead."""
    task.doing = "everything fast"
    task.play(np.full(len(task.tables.access), COPY, np.int8))
    task.doing = "benefit per byte and second"
    for clock, cut in itertools.product(task.msa_shares, _CUTS):
        if task.done:
            return
        task.use(task.tables_with(clock))
        _knapsacks(task, make_stays(task.tables, cut))
    task.doing = "greedy rules"
    task.use(task.tables_with(task.msa_shares[0]))
    good_starts(task)
    for cut in _CUTS:
        task.doing = f"look-ahead, cut at {cut:g}"
        task.use(task.best_tables)
        look_ahead(task, make_stays(task.tables, cut))


def random_knapsacks(task: Task, share: float, most: int) -> list[Start]:
    """Plays knapsacks with random clocks, cuts, powers and filled shares.

    Args:
      task: the task.
      share: of the budget, after which it ends.
      most: plans to return, at most.

    Returns:
      The best plans, the best first.
    """
    draw = task.generator
    found: list[Start] = []
    known: dict[tuple[int, int], Stays] = {}
    while not task.done and task.spent < share:
        clock, cut = int(draw.integers(len(task.msa_shares))), int(draw.integers(len(_CUTS)))
        task.use(task.tables_with(task.msa_shares[clock]))
        if (clock, cut) not in known:
            known[clock, cut] = make_stays(task.tables, _CUTS[cut])
        stays = known[clock, cut]
        if not len(stays.size):
            return []
        plan = _knapsack(task, stays, _POWERS[int(draw.integers(len(_POWERS)))], float(draw.uniform(0.6, 1.0)))
        found.append(Start(task.play(plan), task.plan_tables, plan))
    return sorted(found, key=lambda start: start.seconds)[:most]


# ---- stays -----------------------------------------------------------------------------------------------------------


def make_stays(tables: Tables, cut: float) -> Stays:
    """Returns the stays of all buffers that may be placed, cut where unused for a share `cut` of the time."""
    owner, kind = tables.access["buffer"], tables.access["kind"]
    step = tables.access["instruction"]
    begin = tables.instruction["clock_s"]
    end = begin + tables.instruction["all_hbm_s"]
    placeable = (tables.buffer["played"][owner] == 1) & (tables.buffer["trivial"][owner] == 0)
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
    # A result whose buffer has a later stay must be written back.
    for access in np.flatnonzero(placeable & (kind != OPERAND)).tolist():
        if latest[int(owner[access])] != number[access]:
            preference[access] = COPY
    spans = np.array(stays, np.int64).reshape(-1, 2)
    of_stay = np.zeros(len(stays), np.int64)
    of_stay[number[placeable]] = owner[placeable]
    benefit = np.bincount(number[placeable], tables.access["benefit"][placeable], minlength=len(stays))
    return Stays(
        number,
        spans[:, 0],
        spans[:, 1],
        tables.buffer["aligned"][of_stay].astype(np.int64),
        benefit.astype(np.float64),
        end[spans[:, 1]] - begin[spans[:, 0]],
        preference,
    )


def plan_of_stays(task: Task, stays: Stays, chosen: NDArray[np.bool_]) -> Plan:
    """Returns the plan in which the accesses of the `chosen` stays (`[S]`) are fast."""
    plan = np.where(chosen[stays.of_access] & (stays.of_access >= 0), stays.preference, DROP).astype(np.int8)
    # The game prefetches the first input that prefers it across programs: only the one that gains most does.
    buffer = task.tables.buffer[task.tables.access["buffer"]]
    constant = (buffer["is_input"] == 1) & (buffer["last_result"] < 0)
    able = np.flatnonzero((plan == COPY) & constant)
    if len(able):
        best = able[np.argmax(stays.benefit_s[stays.of_access[able]])]
        plan[stays.of_access == stays.of_access[best]] = CROSS_PROGRAM_FETCH
    return plan


def _order(stays: Stays, bytes_power: float, seconds_power: float) -> NDArray[np.int64]:
    """Returns the stays with a benefit, by benefit over cost, the best first."""
    cost = stays.size.astype(np.float64) ** bytes_power * np.maximum(stays.seconds, 1e-12) ** seconds_power
    order = np.argsort(-stays.benefit_s / cost, kind="stable")
    return order[stays.benefit_s[order] > 0.0]


# ---- knapsacks and look-ahead ----------------------------------------------------------------------------------------


def _knapsacks(task: Task, stays: Stays) -> None:
    for powers, share in itertools.product(_POWERS, _FILLED):
        if task.done or not len(stays.size):
            return
        task.play(_knapsack(task, stays, powers, share))


def _knapsack(task: Task, stays: Stays, powers: tuple[float, float], share: float) -> Plan:
    free = share * (task.tables.limits.fast_bytes - task.game.program.reserved)
    return plan_of_stays(task, stays, take(_order(stays, *powers), stays.first, stays.last, stays.size, free))


def take(
    order: NDArray[np.int64],
    first: NDArray[np.int64],
    last: NDArray[np.int64],
    size: NDArray[np.int64],
    free: NDArray[np.float64],
) -> NDArray[np.bool_]:
    """Returns `[S]` whether each stay is taken: in `order`, if it fits beside those before it in `free[T]` bytes."""
    chosen = np.zeros(len(first), np.int8)
    order, first, last, size = (np.ascontiguousarray(each, np.int64) for each in (order, first, last, size))
    _take(order, first, last, size, free.astype(np.float64), chosen)
    return chosen.view(np.bool_)


@kernel(vector(np.int64), vector(np.int64), vector(np.int64), vector(np.int64), vector(np.float64), vector(np.int8))
def _take(
    order: np.ndarray, first: np.ndarray, last: np.ndarray, size: np.ndarray, left: np.ndarray, chosen: np.ndarray
) -> None:
    for k in range(len(order)):
        stay = order[k]
        fits = True
        for t in range(first[stay], last[stay] + 1):
            if left[t] < size[stay]:
                fits = False
                break
        if fits:
            chosen[stay] = 1
            for t in range(first[stay], last[stay] + 1):
                left[t] -= size[stay]


def look_ahead(task: Task, stays: Stays) -> None:
    """Adds stay by stay to an empty fast memory, then tries to add, drop or wait for each stay in the best plan."""
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
