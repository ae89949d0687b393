"""Compiles what solvers run, before a clock starts."""

from collections.abc import Iterable

from ...env.errors import UserError
from ...env.physics.objective import resolve
from ...env.program.program import Program
from ...env.suggestion import unknown
from ...solvers.solve import Solvers, warm_up
from ..terminal.compiling import Compiling
from . import needs

# The solver that runs the decoder of XLA's algorithm, by which mappings are translated into options.
DECODES = "order-search"


def compile_solver(solver: str, solvers: Solvers, program: Program, objective: str | None, *also: str) -> None:
    """Compiles a solver for `solve`, if it can solve the program, and the solvers `also`, which run beside it.

    Raises:
      UserError: there is no such solver, or the objective is not known.
    """
    known(solver, solvers)
    resolve(program, objective)
    with Compiling() as compiling:
        compile_solvers(compiling, solvers, solver, *also)


def compile_solvers(compiling: Compiling, solvers: Solvers, *names: str) -> None:
    """Compiles solvers and all that they call."""
    compiling.kernels(dict.fromkeys(kernel for name in names for kernel in needs.SOLVERS[name]))
    for name in names:
        with compiling.rest():
            warm_up(solvers[name])


def known(solver: str, solvers: Iterable[str]) -> None:
    """Raises UserError if there is no such solver."""
    if solver not in solvers:
        raise UserError(unknown("solver", solver, solvers))
