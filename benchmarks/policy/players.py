"""The players that are compared: the trained policy, its placebos, the same without it, and rules."""

from pathlib import Path

from mallocmuzero.launch.run.guided import read_scoring_parameters
from mallocmuzero.solvers.anneal import anneal
from mallocmuzero.solvers.common.task import Task
from mallocmuzero.solvers.learned.score import NONE, PLACEBOS, make_score
from mallocmuzero.solvers.learned.solver import guided, policy
from mallocmuzero.solvers.solve import Solver
from mallocmuzero.solvers.starts.plans import portfolio_starts
from mallocmuzero.solvers.starts.portfolio import Portfolio, random_knapsack

TRAINED = "trained"
# Players that end by themselves.
RULES, KNAPSACKS = "rules", "knapsacks"
ANNEAL = "anneal"
_KNAPSACKS = 12


def instant_players(policy_file: Path | None, seed: int) -> dict[str, Solver]:
    """Returns the policy alone and its placebos, the rules that it begins with, and twelve random knapsacks."""
    parameters = read_scoring_parameters(policy_file)

    def by(placebo: str | None) -> Solver:
        return lambda task: policy(task, make_score(parameters, placebo, seed))

    return {
        TRAINED: by(None),
        **{placebo: by(placebo) for placebo in PLACEBOS if placebo != NONE},
        RULES: _rules,
        KNAPSACKS: _knapsacks,
    }


def timed_players(policy_file: Path | None, seed: int) -> dict[str, Solver]:
    """Returns `guided` with the policy, its placebos and without, and annealing."""
    parameters = read_scoring_parameters(policy_file)

    def by(placebo: str | None) -> Solver:
        return lambda task: guided(task, None if placebo == NONE else make_score(parameters, placebo, seed))

    return {TRAINED: by(None), **{placebo: by(placebo) for placebo in PLACEBOS}, ANNEAL: anneal}


def _rules(task: Task) -> None:
    portfolio_starts(task, 1.0, 1, further=False)


def _knapsacks(task: Task) -> None:
    portfolio = Portfolio(task.tables, task.game.program.reserved)
    played = 0
    while played < _KNAPSACKS and len(task.free):
        plan = portfolio.plan(random_knapsack(task.generator))
        played += 1
        if plan is not None:
            task.play(plan)
