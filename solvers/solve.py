"""The front door of the solvers: the table of their names, and `solve`, which returns a verified mapping."""

import gc
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ..env import workloads
from ..env.errors import UserError
from ..env.physics.objective import make_judge
from ..env.program.mapping import Mapping
from ..env.program.program import Program, all_hbm
from ..env.program.target import Target
from ..env.suggestion import unknown
from ..env.verifier.verify import verify
from .anneal import anneal
from .beam import beam
from .cem import cem
from .common.budget import Budget, Progress
from .common.exchange import Exchange
from .common.fill import gather
from .common.task import Task
from .greedy import greedy
from .restarts import random_play, random_restarts
from .xla.solver import xla

Solver = Callable[[Task], None]
Solvers = dict[str, Solver]


def _flags(task: Task) -> None:
    from .flags import flags  # loads SciPy

    flags(task)


def _order_search(task: Task) -> None:
    from .order.solver import order_search  # loads SciPy

    order_search(task)


def _milp(task: Task) -> None:
    from .milp.solver import milp  # loads HiGHS and SciPy

    milp(task)


def _egrl(task: Task) -> None:
    from .egrl.solver import egrl  # loads JAX

    egrl(task)


# In the order of the help text.
SOLVERS: Solvers = {
    "anneal": anneal,  # simulated annealing over plans
    "cem": cem,  # cross-entropy method: a linear policy of the game's moves
    "beam": beam,  # beam search over the game's moves
    "restarts": random_restarts,  # climbs from random greedy plans
    "milp": _milp,  # a mixed-integer program, rounded
    "egrl": _egrl,  # evolution and a soft actor-critic over graph networks
    "greedy": greedy,  # greedy rules, knapsacks and look-ahead; ends by itself
    "random": random_play,  # random plans
    "xla": xla,  # the compiler's own algorithm, once
    "flags": _flags,  # the compiler's own algorithm under a grid of its flags
    "order-search": _order_search,  # the compiler's own algorithm, its order of buffers and flags searched
}
DEFAULT_SOLVER = "anneal"
# This many games take every solver through all of its code.
_WARM_UP_GAMES = 600


@dataclass(frozen=True, eq=False)
class Solution:
    """The result of a solver.

    Attributes:
      solver: its name.
      seed: of its generator.
      objective: the objective that mappings were judged by.
      mapping: verified.
      judged_s: seconds of the mapping under the objective.
      evaluations: games that the solver finished.
      seconds: spent, by the clock of the budget.
      stopped: whether it was stopped before its budget was spent.
      ended: whether it finished before its budget was spent; a larger budget would not change the result.
    """

    solver: str
    seed: int
    objective: str
    mapping: Mapping
    judged_s: float
    evaluations: int
    seconds: float
    stopped: bool
    ended: bool


def solve(
    program: Program,
    solver: str = DEFAULT_SOLVER,
    target: Target | None = None,
    objective: str | None = None,
    budget: Budget | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    stop: Callable[[], bool] | None = None,
    repack: bool = False,
    solvers: Solvers = SOLVERS,
    exchange: Exchange | None = None,
    crossable: NDArray[np.bool_] | None = None,
) -> Solution:
    """Maps a program with a solver. The best mapping so far is kept when the budget ends, on `stop` and on Ctrl-C.

    Args:
      program: the program.
      solver: a name in `solvers`.
      target: the hardware; None for the program's own.
      objective: `robust`, `msa` or `cycles`; None for `robust` where the program has a cycle table, else `msa`.
      budget: None for a minute.
      seed: with a limit of evaluations and no other limit, equal seeds give equal mappings.
      progress: called with the solver's status several times a second.
      stop: called as often; the solver stops when it returns True.
      repack: pack the final mapping anew and fill the free memory that this gathers, if that makes it better.
      solvers: the solvers by name.
      exchange: plans of other processes that solve the same program, for solvers that race; None if there are none.
      crossable: `[N]` the inputs that solvers which play the game may prefetch across programs; None for all that the
        game allows. Those of XLA's algorithm prefetch what XLA does.

    Raises:
      UserError: the solver or the objective is not known, or the program lacks data that the objective needs.
    """
    if solver not in solvers:
        raise UserError(unknown("solver", solver, solvers))
    make_judge(program, objective, target)  # raises before anything is compiled
    warm_up(solvers[solver])
    stopped, ended = False, False
    # A collection would traverse all objects of the libraries, for a tenth of a second or more.
    gc.freeze()
    try:
        task = Task(
            program,
            target,
            objective,
            Budget() if budget is None else budget,
            seed,
            progress,
            stop,
            exchange=exchange,
            crossable=crossable,
        )
        try:
            solvers[solver](task)
            ended = task.spent < 1.0
        except KeyboardInterrupt:
            stopped = True
    finally:
        gc.unfreeze()
    judge = task.game.judge
    nothing = all_hbm(program)
    mapping = task.mapping() or nothing
    if judge.judge(nothing) < judge.judge(mapping):
        mapping = nothing
    if repack:
        mapping = gather(judge, mapping)
    violations = verify(program, judge.target, mapping)
    if violations:
        raise RuntimeError(f"solver {solver!r} made an illegal mapping of {program.name!r}: {violations[0].message}")
    origin = {"solver": solver, "seed": seed, "objective": judge.objective, "evaluations": task.evaluations}
    mapping = Mapping(mapping.program_sha256, mapping.access_fast, mapping.residencies, mapping.copies, origin)
    stopped = stopped or (stop is not None and stop())
    return Solution(
        solver,
        seed,
        judge.objective,
        mapping,
        judge.judge(mapping),
        task.evaluations,
        task.seconds,
        stopped,
        ended and not stopped,
    )


@cache
def warm_up(solver: Solver) -> None:
    """Runs a solver on a tiny program, so that all code is compiled or read from the cache before any clock runs."""
    task = Task(workloads.load("tiny"), None, "msa", Budget(None, _WARM_UP_GAMES), 0)
    solver(task)
    mapping = task.mapping()
    if mapping is not None:
        gather(task.game.judge, mapping)
