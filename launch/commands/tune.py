"""`mallocmuzero tune`: makes compiler options for a user's own function, confirmed by the real compiler."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..terminal.compiler_arguments import add_options_output, add_python_option
from ..terminal.confirmation_report import report, say, show, verdict
from ..terminal.json_output import add_json_option, write_json

if TYPE_CHECKING:
    from ...solvers.solve import Solvers

_MINUTES = 10.0
_GUIDED = "guided"


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the command to the parser."""
    parser = subparsers.add_parser(
        "tune",
        help="make compiler options for a JAX function",
        description="Captures a function, maps it, translates the mapping into compiler options, and keeps the best "
        "options that the real compiler confirms, never worse than its default, for a TPU that need not be there: "
        "docs/round-trip.md.",
    )
    parser.add_argument(
        "function",
        metavar="PKG.MODULE:FUNCTION",
        help="a function without arguments that returns (function to compile, its example arguments)",
    )
    parser.add_argument("--target", required=True, metavar="GENERATION", help="TPU generation, e.g. v5e")
    parser.add_argument(
        "--minutes", type=float, default=_MINUTES, metavar="M", help=f"time for all steps; by default {_MINUTES:.0f}"
    )
    add_options_output(parser)
    add_python_option(parser)
    parser.add_argument(
        "--solver", default=_GUIDED, metavar="NAME", help=f"a solver of docs/solvers.md; by default {_GUIDED}"
    )
    parser.add_argument(
        "--objective",
        metavar="O",
        help="robust, msa or cycles; by default robust if there was time for cycles, else msa",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of solver and translation; by default 0")
    parser.add_argument("--program-output", type=Path, metavar="FILE", help="also write the program, .json.gz")
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; the status is 0 also if the compiler's default is the best, which is then reported."""
    import json

    from ...env.capture.environment import managed_python
    from ...env.errors import UserError
    from ...env.storage.atomic import write_atomically
    from ...roundtrip.comparison import flags_us
    from ...roundtrip.tune import tune
    from ..start.solving import DECODES, compile_solvers
    from ..terminal.compiling import Compiling

    if arguments.seed < 0 or not arguments.minutes > 0:
        raise UserError("--seed is 0 or more, --minutes more than 0")
    for output in (arguments.output, arguments.program_output):
        if output is not None and not output.parent.is_dir():
            raise UserError(f"{output}: there is no folder {output.parent}; make it first")
    with Compiling() as compiling:
        solvers = _solvers(arguments.solver)
        compile_solvers(compiling, solvers, arguments.solver, DECODES)
    tuned = tune(
        arguments.function,
        arguments.target,
        arguments.minutes,
        arguments.python or managed_python(say),
        solver=arguments.solver,
        solvers=solvers,
        objective=arguments.objective,
        seed=arguments.seed,
        program_output=arguments.program_output,
        progress=say,
    )
    options = {**tuned.source.options, **tuned.confirmation.options}
    result: dict[str, Any] = report(tuned.confirmation, tuned.wanted, tuned.missing) | {
        "function": arguments.function,
        "target": arguments.target,
        "solver": arguments.solver,
        "objective": tuned.objective,
        "seed": arguments.seed,
        "minutes": arguments.minutes,
        "program_file": None if arguments.program_output is None else str(arguments.program_output),
        "flags_us": flags_us(tuned.confirmation.program, tuned.objective),
        "decodes": tuned.decodes,
        "seconds": tuned.seconds,
        "versions": tuned.versions,
        "options": options,
    }
    write_atomically(arguments.output, (json.dumps(options, indent=1) + "\n").encode())
    if arguments.json != "-":
        show(result)
        if result["flags_us"] is not None:
            print(f"against the best of the flag grid: {verdict(result['flags_us'], result['confirmed_us'])}")
        print(f"wrote {arguments.output}")
        print(_report_line(arguments))
    if arguments.json:
        write_json(result, arguments.json)
    return 0


def _report_line(arguments: argparse.Namespace) -> str:
    """Returns the line that names the command for the report, or what it needs."""
    if not arguments.json:
        return "for a report of it, run again with --json tuning.json, and --program-output FILE for its memory map"
    more = "" if arguments.program_output else "; with --program-output FILE it would have a memory map"
    return f"report: mallocmuzero report {arguments.json} -o report.html{more}"


def _solvers(solver: str) -> "Solvers":
    """Returns the solvers to choose from.

    Raises:
      UserError: there is no such solver.
    """
    from ...env.errors import UserError
    from ...solvers.solve import SOLVERS
    from ..run.guided import learned_solvers

    solvers = {**learned_solvers(), **SOLVERS}
    if solver not in solvers:
        raise UserError(f"no solver is called {solver!r}; the solvers are {', '.join(solvers)}")
    return solvers
