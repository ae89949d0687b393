"""`mallocmuzero diagnose`: the errors of an agent's model, value and policy, and the gains of its changes."""

import argparse
import sys
from pathlib import Path

from ..terminal.json_output import add_json_option, write_json


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the command to the parser."""
    parser = subparsers.add_parser(
        "diagnose",
        help="measure the errors of a trained agent",
        description="Compares a trained agent's model, values and policy with the real game. Lists the decisions of "
        "XLA's production mapping that it would change, with the gain of each: docs/diagnosis.md.",
    )
    parser.add_argument(
        "agent",
        metavar="RUN_DIR|POLICY",
        help="run directory of `mallocmuzero train`, policy file, or a learner's checkpoint folder",
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--workload", nargs="+", metavar="NAME|FILE", help="workloads or program files")
    which.add_argument("--split", metavar="S", help="all workloads of a split")
    parser.add_argument(
        "--simulations",
        type=int,
        metavar="N",
        help="choose changes by search with N simulations; by default by the policy alone",
    )
    parser.add_argument("--horizon", type=int, default=10, metavar="K", help="steps to imagine; 10 by default")
    parser.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="folder for pictures; none by default")
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command."""
    from ...actors.diagnosis.diagnose import diagnose
    from ...env import workloads
    from ...env.errors import UserError
    from ..diagnosis.load import load_agent
    from ..diagnosis.pictures import draw
    from ..diagnosis.tables import heading, tables
    from ..start import needs
    from ..terminal.compiling import compile_kernels
    from ..terminal.console import stdout_console

    for name, least in (("simulations", 1), ("horizon", 1)):
        value = getattr(arguments, name)
        if value is not None and value < least:
            raise UserError(f"--{name} is {value}; it must be at least {least}")
    names = arguments.workload
    if arguments.split is not None:
        names = workloads.names_of(arguments.split)
    agent = load_agent(arguments.agent)
    programs = [workloads.load(name) for name in names]
    compile_kernels(needs.DIAGNOSE)
    console, results = stdout_console(), []
    for program in programs:
        print(f"diagnosing {program.name}", file=sys.stderr, flush=True)
        diagnosis = diagnose(agent, program, horizon=arguments.horizon, simulations=arguments.simulations or 0)
        results.append(diagnosis.as_json())
        written = [] if arguments.output is None else draw(diagnosis, arguments.output)
        if arguments.json != "-":
            console.print(heading(diagnosis), soft_wrap=True)
            for table in tables(diagnosis):
                console.print(table)
            for path in written:
                console.print(f"wrote {path}", soft_wrap=True)
    if arguments.json is not None:
        write_json(results, arguments.json)
    return 0
