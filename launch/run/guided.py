"""Composes the solver `guided`: a policy file or run, the search in `solvers/learned`, the gradient in `learner`."""

from collections.abc import Callable
from pathlib import Path

from ...env.program.program import Program
from ...learner.fine_tune import FineTuner
from ...solvers.common.budget import Budget, Progress
from ...solvers.learned.config import GuidedConfig
from ...solvers.learned.solver import make_guided
from ...solvers.solve import Solution, Solver, solve
from .policy import load_policy

NAME = "guided"


def guided_solver(policy: str | Path | None = None, config: GuidedConfig | None = None) -> Solver:
    """Returns the solver with a policy, compiled; every run of it begins from the policy as it was read.

    Args:
      policy: a policy file or a run directory; None for the shipped policy.
      config: None for the defaults.

    Raises:
      UserError: the policy cannot be read.
    """
    network, params, _ = load_policy(policy)
    return make_guided(network, params, lambda: FineTuner(network, params), config)


def solve_guided(
    program: Program,
    policy: str | Path | None = None,
    *,
    objective: str | None = None,
    budget: Budget | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    stop: Callable[[], bool] | None = None,
    repack: bool = True,
    config: GuidedConfig | None = None,
) -> Solution:
    """Maps a program; the mapping is never worse than XLA's production mapping.

    Args:
      program: the program.
      policy, config: see `guided_solver`.
      objective, budget, seed, progress, stop, repack: see `solvers.solve.solve`.

    Raises:
      UserError: the policy cannot be read, or the program lacks what the objective needs.
    """
    return solve(
        program,
        NAME,
        objective=objective,
        budget=budget,
        seed=seed,
        progress=progress,
        stop=stop,
        repack=repack,
        solvers={NAME: guided_solver(policy, config)},
    )
