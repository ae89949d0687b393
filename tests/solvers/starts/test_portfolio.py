"""The portfolio of rules: it always has a plan where something may be placed, and is better than its parts."""

import numpy as np

from mallocmuzero.env.workloads import load
from mallocmuzero.solvers.common.budget import Budget
from mallocmuzero.solvers.common.task import Task
from mallocmuzero.solvers.starts.plans import portfolio_starts
from mallocmuzero.solvers.starts.portfolio import RULES, Knapsack, Portfolio, random_knapsack


def test_rules_go_well_together() -> None:
    ratios = []
    for name in ("resnet50-b32-v4", "alexnet-train-b128", "graph-network-v5p", "mobilenet-v1-b128"):
        task = Task(load(name), None, "msa", Budget(None, 10_000), 0)
        portfolio = Portfolio(task.tables, task.game.program.reserved)
        plans = [portfolio.plan(rule) for rule in RULES]
        ratios.append([np.inf if plan is None else task.play(plan) / task.game.judge.production_s for plan in plans])
    by_rule = np.array(ratios)
    together = np.log(by_rule.min(axis=1)).mean()
    assert (together < np.log(by_rule).mean(axis=0) - 0.005).all()


def test_random_knapsacks_follow_when_the_rules_are_played() -> None:
    task = Task(load("tiny"), None, "msa", Budget(None, 60), 0)
    starts = portfolio_starts(task, 1.0, 3)
    assert task.evaluations == 60 > len(RULES)
    assert len(starts) == 3
    assert starts[0].seconds == task.best_s <= starts[1].seconds <= starts[2].seconds


def test_random_knapsacks_are_repeated_by_their_generator() -> None:
    drawn = [random_knapsack(np.random.default_rng(seed)) for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert isinstance(drawn[0], Knapsack)
