"""`solve --solver muzero` with the policy, the same without it, or another solver: what two benchmarks of the agent
run."""

from functools import cache
from pathlib import Path

from mallocmuzero.env.program.program import Program
from mallocmuzero.launch.learned import NAME, solve_muzero
from mallocmuzero.launch.run.policy import SHIPPED
from mallocmuzero.solvers.common.task import PROCESSOR, Budget
from mallocmuzero.solvers.learned.solver import muzero
from mallocmuzero.solvers.solve import SOLVERS, Solution, Solver, solve

from ..solvers import records as solver_records
from .records import HELD_OUT, code_of, policy_digest


def solved(program: Program, mode: str, policy: str | None, seconds: float, seed: int) -> Solution:
    """Returns what `mode` makes of a program in `seconds` of processor time.

    Args:
      program: what is mapped.
      mode: `HELD_OUT` with the policy, `UNGUIDED` without; or another solver's name.
      policy: a run directory or a policy file; None for the shipped one.
      seconds: the budget.
      seed: of everything.
    """
    budget = Budget(seconds, clock=PROCESSOR)
    if mode == HELD_OUT:
        return solve_muzero(program, policy, budget=budget, seed=seed)
    if mode in SOLVERS:
        return solve(program, mode, budget=budget, seed=seed)
    alone: Solver = lambda task: muzero(task, None)  # noqa: E731
    return solve(program, NAME, budget=budget, seed=seed, repack=True, solvers={NAME: alone})


@cache
def versions(mode: str, policy: str | None, seconds: float) -> tuple[str, str | None]:
    """Returns the hashes of the code, and of the policy if there is one, that runs of a mode and budget depend on: as
    they were when this process first asked."""
    if mode in SOLVERS:
        return solver_records.code_of(mode), None
    path = SHIPPED if policy is None else Path(policy)
    return code_of(mode, seconds), policy_digest(path) if mode == HELD_OUT else None
