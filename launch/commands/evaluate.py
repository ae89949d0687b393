"""`mallocmuzero evaluate`: plays programs with a trained agent, beside reference players and XLA."""

import argparse
from typing import TYPE_CHECKING

from ..terminal.json_output import add_json_option, check_json, write_json

if TYPE_CHECKING:
    from ..config.config import TrainConfig


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the command to the parser."""
    parser = subparsers.add_parser(
        "evaluate",
        help="play programs with a trained agent",
        description="Plays programs with the agent of a run, by its policy alone and with search, and compares the "
        "mappings with those of reference players and XLA. All mappings are verified.",
    )
    parser.add_argument("run_dir", metavar="RUN_DIR", help="run directory of `mallocmuzero train`, or its URL")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--workload", nargs="+", metavar="NAME|FILE", help="workloads or program files")
    which.add_argument("--split", metavar="S", help="all workloads of a split")
    parser.add_argument("--simulations", type=int, metavar="S", help="simulations per move; by default as configured")
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command."""
    from ...env import workloads
    from ...env.errors import UserError
    from ..config.limits import MOST_SIMULATIONS
    from ..run.directory import RunDirectory
    from ..run.url import is_url, local_run
    from ..session.compiled import compile_evaluation, evaluation_kernels
    from ..session.evaluation_tables import show_evaluations
    from ..session.report import evaluate_run
    from ..terminal.compiling import Compiling
    from ..terminal.mode import say

    check_json(arguments)
    names = arguments.workload
    if arguments.split is not None:
        names = workloads.names_of(arguments.split)
    if arguments.simulations is not None and not 1 <= arguments.simulations <= MOST_SIMULATIONS:
        raise UserError(f"--simulations is {arguments.simulations}; it must be from 1 to {MOST_SIMULATIONS:,}")
    if not is_url(arguments.run_dir):
        RunDirectory(arguments.run_dir).open()  # raises before anything is compiled
    programs = [workloads.load(name) for name in names]

    def compile_all(config: "TrainConfig", simulations: int) -> None:
        with Compiling() as compiling:
            compiling.kernels(evaluation_kernels(config))
            with compiling.networks("policy and search"):
                compile_evaluation(config, len(programs), simulations)

    with local_run(arguments.run_dir) as run_dir:
        rows = evaluate_run(run_dir, programs, arguments.simulations, compile_all, progress=say)
    if arguments.json is not None:
        write_json([row.as_json() for row in rows], arguments.json)
    if arguments.json != "-":
        show_evaluations(rows)
    return 0
