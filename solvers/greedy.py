"""The solver `greedy`: knapsacks of stays, greedy rules of the game, and look-ahead.

- The *portfolio* (`solvers/starts/portfolio.py`): knapsacks and rounded prices that complement each other.
- *Knapsacks* fill fast memory stay by stay, in the order of the seconds that a stay saves, divided by powers of its
  bytes and its length: benefit per byte, benefit per byte-second, and ratios between them. The game chooses the
  offsets. Under `robust` they are repeated with several clocks.
- *Rules* (`solvers/common/greedy_rules.py`) decide in program order, from the accesses ahead.
- *Look-ahead* takes the stays in the same order as a knapsack, plays the whole game with and without each, and keeps
  the better plan.
"""

import itertools

import numpy as np

from ..env.game.moves import COPY, DROP
from ..env.game.plan import WAIT, Plan
from ..env.program.program import OPERAND
from ..env.residency.stays import CUTS, Stays, make_stays, plan_of_stays
from .common.task import Task
from .starts.knapsack import POWERS, by_density, free_bytes, take
from .starts.plans import good_starts
from .starts.portfolio import RULES, Portfolio

# Shares of fast memory that a knapsack fills: offsets waste the rest.
_FILLED = (1.0, 0.85, 0.7)


def greedy(task: Task) -> None:
    """Plays everything fast, the portfolio, further knapsacks and all greedy rules; then looks ahead."""
    task.doing = "everything fast"
    task.play(np.full(len(task.tables.access), COPY, np.int8))
    task.doing = "portfolio"
    for clock in task.msa_shares:
        task.use(task.tables_with(clock))
        portfolio = Portfolio(task.tables, task.game.program.reserved)
        for rule in RULES:
            plan = None if task.done else portfolio.plan(rule)
            if plan is not None:
                task.play(plan)
    task.doing = "benefit per byte and second"
    for clock, cut in itertools.product(task.msa_shares, CUTS):
        if task.done:
            return
        task.use(task.tables_with(clock))
        _knapsacks(task, make_stays(task.tables, cut))
    task.doing = "greedy rules"
    task.use(task.tables_with(task.msa_shares[0]))
    good_starts(task)
    for cut in CUTS:
        task.doing = f"look-ahead, cut at {cut:g}"
        task.use(task.best_tables)
        look_ahead(task, make_stays(task.tables, cut))


def _knapsacks(task: Task, stays: Stays) -> None:
    for powers, share in itertools.product(POWERS, _FILLED):
        if task.done or not len(stays.size):
            return
        task.play(_knapsack(task, stays, powers, share))


def _knapsack(task: Task, stays: Stays, powers: tuple[float, float], share: float) -> Plan:
    free = share * free_bytes(task.tables, task.game.program.reserved)
    return plan_of_stays(task.tables, stays, take(by_density(stays, *powers), stays, free))


def look_ahead(task: Task, stays: Stays) -> None:
    """Adds stay by stay to an empty fast memory, then tries to add, drop or wait for each stay in the best plan,
    or to write its results back at once."""
    if not len(stays.size):
        return
    plan = np.full(len(stays.of_access), DROP, np.int8)
    results = task.tables.access["kind"] != OPERAND
    reached = task.play(plan) if not task.done else np.inf
    for power in POWERS[:2]:
        for stay in by_density(stays, *power).tolist():
            if task.done:
                return
            trial = np.where(stays.of_access == stay, stays.preference, plan).astype(np.int8)
            seconds = task.play(trial)
            if seconds < reached:
                plan, reached = trial, seconds
    for stay in by_density(stays, 1.0, 1.0).tolist():
        if task.done or task.best_plan is None:
            return
        mine = stays.of_access == stay
        patient = np.where(stays.preference == COPY, WAIT, stays.preference)
        written_back = np.where(results, COPY, stays.preference)
        for preference in (stays.preference, DROP, patient, written_back):
            trial = np.where(mine, preference, task.best_plan).astype(np.int8)
            if not np.array_equal(trial, task.best_plan):
                task.play(trial)
