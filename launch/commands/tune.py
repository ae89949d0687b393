"""`mallocmuzero tune`: makes compiler options for a user's own function, confirmed by the real compiler."""

import argparse
from pathlib import Path

from ..api.tune import MINUTES, SOLVER
from ..terminal.compiler_arguments import (
    add_base_options,
    add_devices,
    add_options_output,
    add_python_option,
    add_target,
    base_options,
    devices_of,
)
from ..terminal.json_output import add_json_option, check_json, write_json


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
        metavar="PKG.MODULE:FUNCTION|MODULE",
        help="a function without arguments that returns (function to compile, its example arguments); one that takes "
        "an argument is given the devices of the target. Or the file of a lowered module: docs/modules.md",
    )
    add_target(parser)
    parser.add_argument(
        "--minutes", type=float, default=MINUTES, metavar="M", help=f"time for all steps; by default {MINUTES:.0f}"
    )
    add_options_output(parser)
    add_python_option(parser)
    add_base_options(parser)
    add_devices(parser)
    parser.add_argument(
        "--solver", default=SOLVER, metavar="NAME", help=f"a solver of docs/solvers.md; by default {SOLVER}"
    )
    parser.add_argument(
        "--objective",
        metavar="O",
        help="robust, msa or cycles; by default robust. Unless it is msa, options are kept only if the compiler has "
        "told their cycles",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of solver and translation; by default 0")
    parser.add_argument(
        "--workers",
        type=int,
        default=1,
        metavar="N",
        help="processes that search and translate at once, best no more than cores; 1 by default",
    )
    parser.add_argument(
        "--flags-only",
        action="store_true",
        help="options of flags alone, which name nothing of the program; they mostly gain less. --solver and --workers "
        "do nothing then",
    )
    parser.add_argument(
        "--scoped-memory",
        action="store_true",
        help="first look for the best size of scoped memory, the part of fast memory that the code generator keeps for "
        "itself, by cycles: up to five compilations more, in half of the time at most",
    )
    parser.add_argument("--program-output", type=Path, metavar="FILE", help="also write the program, .json.gz")
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; the status is 0 even if the compiler's default is the best, which is then reported."""
    from ..api.tune import tune
    from ..terminal.confirmation_report import show

    check_json(arguments)
    tuned = tune(
        arguments.function,
        target=arguments.target,
        minutes=arguments.minutes,
        solver=arguments.solver,
        objective=arguments.objective,
        seed=arguments.seed,
        workers=arguments.workers,
        flags_only=arguments.flags_only,
        scoped_memory=arguments.scoped_memory,
        python=arguments.python,
        jax=arguments.jax,
        compiler_options=base_options(arguments.base),
        devices=devices_of(arguments.devices),
        output=arguments.output,
        program_output=arguments.program_output,
    )
    if arguments.json != "-":
        show(tuned.report)
        print(f"wrote {arguments.output}")
        print(_report_line(arguments))
    if arguments.json:
        write_json(tuned.as_json(), arguments.json)
    return 0


def _report_line(arguments: argparse.Namespace) -> str:
    """Returns the line that names the command for the report, or what it needs."""
    if not arguments.json:
        return "for a report of it, run again with --json tuning.json, and --program-output FILE for its memory map"
    more = "" if arguments.program_output else "; with --program-output FILE it would have a memory map"
    return f"report: mallocmuzero report {arguments.json} -o report.html{more}"
