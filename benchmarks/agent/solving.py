"""Runs the solver `guided` with a policy, the same solver without one, or another solver, in a budget."""

from mallocmuzero.env.program.program import Program
from mallocmuzero.launch.run.guided import GUIDED, solve_guided
from mallocmuzero.solvers.common.budget import PROCESSOR, Budget
from mallocmuzero.solvers.common.task import Task
from mallocmuzero.solvers.learned.solver import guided
from mallocmuzero.solvers.solve import SOLVERS, Solution, solve

from .records import HELD_OUT


def solved(program: Program, mode: str, policy: str | None, seconds: float, seed: int) -> Solution:
    """Returns the solution of a program after `seconds` of processor time.

    Args:
      program: the program.
      mode: `HELD_OUT` with the policy, `UNGUIDED` without, or the name of another solver.
      policy: a run directory or a policy file; None for the shipped policy.
      seconds: the budget.
      seed: seed of everything random.
    """
    budget = Budget(seconds, clock=PROCESSOR)
    if mode == HELD_OUT:
        return solve_guided(program, policy, budget=budget, seed=seed)
    if mode in SOLVERS:
        return solve(program, mode, budget=budget, seed=seed)
    return solve(program, GUIDED, budget=budget, seed=seed, repack=True, solvers={GUIDED: _unguided})


def _unguided(task: Task) -> None:
    guided(task, None)
