"""Plans to start a search from: everything fast, the portfolio, greedy rules, and mappings that are followed."""

import itertools
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ...env.game.holding import per_pass_of
from ...env.game.moves import COPY
from ...env.game.plan import Plan, plan_of_line
from ...env.program.mapping import Mapping
from ..common.follow import hints_of_mapping, plan_of_mapping, without_times
from ..common.greedy_rules import GRID, Rule, play_rule
from ..common.task import PlanTables, Task
from .portfolio import RULES, Knapsack, Portfolio, Rounded, random_knapsack


class Start(NamedTuple):
    """A plan to search from: judged seconds of its game, the tables that it is played on, and the plan `[A]`."""

    seconds: float
    plan_tables: PlanTables
    plan: Plan


def good_starts(task: Task, share: float = 1.0) -> list[Plan]:
    """Plays everything-fast, then greedy rules in random order, until `share` of the budget is spent; offers each plan.

    The first is played in any case, so that there is a mapping. Returns the plans, the best first.
    """
    everything = np.full(len(task.tables.access), COPY, np.int8)
    found = [(task.play(everything), 0, everything)]
    for number in task.generator.permutation(len(GRID)).tolist():
        if task.spent >= share or task.done:
            break
        plan = rule_plan(task, GRID[number])
        found.append((task.finished(plan), number + 1, plan))
    found.sort(key=lambda entry: entry[:2])
    return [plan for _, _, plan in found]


def best_starts(task: Task, share: float, given: Iterable[Mapping] = (), portfolio: bool = True) -> list[Start]:
    """Plays everything-fast, the portfolio unless it is left out, `given` mappings and greedy rules, each with every
    clock, until `share` of the budget is spent.

    Returns:
      The best plan of each clock, the best first.
    """
    everything = np.full(len(task.tables.access), COPY, np.int8)
    rules = (GRID[number] for number in task.generator.permutation(len(GRID)).tolist())
    found: dict[int, Start] = {}
    portfolios: dict[float, Portfolio] = {}
    for start in itertools.chain([everything], RULES if portfolio else (), given, rules):
        if isinstance(start, Mapping):
            followed, hints = plan_of_mapping(task.game.program, start), hints_of_mapping(task.game.program, start)
            per_pass = per_pass_of(task.game.program, start)
        for number, msa_share in enumerate(task.msa_shares):
            if found and (task.spent >= share or task.done):
                break
            task.use(task.tables_with(msa_share))
            if isinstance(start, Knapsack | Rounded):
                chosen = _chosen_plan(task, portfolios, msa_share, start)
                if chosen is None:
                    continue
                plan, seconds = chosen, task.play(chosen)
            elif isinstance(start, Rule):
                plan = rule_plan(task, start)
                seconds = task.finished(plan)
            elif isinstance(start, Mapping):
                plan = followed
                task.use(task.tables_following(msa_share, without_times(hints), per_pass))
                untimed, untimed_s = task.plan_tables, task.play(plan)
                task.use(task.tables_following(msa_share, hints, per_pass))
                seconds = task.play(plan)
                if untimed_s < seconds:
                    task.use(untimed)
                    seconds = untimed_s
            else:
                plan = start
                seconds = task.play(plan)
            if number not in found or seconds < found[number].seconds:
                found[number] = Start(seconds, task.plan_tables, plan)
    ordered = [found[number] for number in sorted(found, key=lambda number: (found[number].seconds, number))]
    task.use(ordered[0].plan_tables)
    return ordered


def portfolio_starts(task: Task, share: float, most: int, further: bool = True) -> list[Start]:
    """Plays the portfolio with every clock, then `further` random knapsacks, until `share` of the budget is spent.

    Returns:
      The best `most` plans, the best first.
    """
    portfolios: dict[float, Portfolio] = {}
    found: list[Start] = []
    drawn = (
        (random_knapsack(task.generator), float(task.generator.choice(task.msa_shares))) for _ in itertools.count()
    )
    rules = itertools.product(RULES, task.msa_shares)
    for rule, msa_share in itertools.chain(rules, drawn if further else ()):
        if task.done or task.spent >= share:
            break
        task.use(task.tables_with(msa_share))
        plan = _chosen_plan(task, portfolios, msa_share, rule)
        if plan is None:
            if not len(task.free):
                break
            continue
        found.append(Start(task.play(plan), task.plan_tables, plan))
    return sorted(found, key=lambda start: start.seconds)[:most]


def _chosen_plan(
    task: Task, portfolios: dict[float, Portfolio], msa_share: float, rule: Knapsack | Rounded
) -> Plan | None:
    """Returns the plan of a rule by the clock that `task` uses now, of `msa_share`; keeps its portfolio."""
    if msa_share not in portfolios:
        portfolios[msa_share] = Portfolio(task.tables, task.game.program.reserved)
    return portfolios[msa_share].plan(rule)


def rule_plan(task: Task, rule: Rule) -> Plan:
    """Plays a game by a greedy rule, and returns the plan that makes the same one."""
    taken = np.zeros(len(task.tables.access), np.int64)
    count = play_rule(task.compiled, rule, taken)
    plan = np.zeros(len(task.tables.access), np.int8)
    plan_of_line(task.compiled, taken, count, plan)
    return plan


def random_rule_plan(task: Task) -> Plan:
    """Returns the plan of a rule with settings drawn from the range of the grid."""
    draw = task.generator
    rule = Rule(
        least_density=float(draw.choice([0.0, draw.uniform(0.0, 0.6)])),
        write_back_after=float(10.0 ** draw.uniform(-3.5, 0.3)),
        victims=float(draw.uniform(0.0, 1.2)),
        stall=float(draw.choice([-1.0, 0.0, draw.uniform(0.0, 0.8)])),
    )
    return rule_plan(task, rule)
