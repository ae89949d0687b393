"""`mallocmuzero diagnose`: where an agent's model, values and policy go wrong, and what its changes are worth."""

import argparse
import sys
from pathlib import Path

from ..json_output import add_json_option, write_json


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the command to the parser."""
    parser = subparsers.add_parser(
        "diagnose",
        help="show what a trained agent knows, and where it errs",
        description="Holds a trained agent's model, values and policy against the real game, and shows which decisions "
        "of XLA's production mapping it would change and what each is worth: docs/diagnosis.md.",
    )
    parser.add_argument(
        "agent",
        metavar="RUN_DIR|POLICY",
        help="run directory of `mallocmuzero train`, or a learner's checkpoint folder",
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--workload", nargs="+", metavar="NAME|FILE", help="workloads or program files")
    which.add_argument("--split", metavar="S", help="all workloads of a split")
    parser.add_argument(
        "--simulations", type=int, metavar="N", help="ask the search what it would change; by default the policy alone"
    )
    parser.add_argument("--horizon", type=int, default=10, metavar="K", help="steps to imagine; 10 by default")
    parser.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="draw pictures there")
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command."""
    from ...actors.diagnosis.diagnose import diagnose
    from ...env import workloads
    from ...env.errors import UserError
    from ..console import stdout_console
    from ..diagnosis.agent import load_agent
    from ..diagnosis.pictures import draw
    from ..diagnosis.tables import heading, tables

    for name, least in (("simulations", 1), ("horizon", 1)):
        value = getattr(arguments, name)
        if value is not None and value < least:
            raise UserError(f"--{name} is {value}; it must be at least {least}")
    names = arguments.workload
    if arguments.split is not None:
        names = [name for name in workloads.names() if workloads.split(name) == arguments.split]
        if not names:
            raise UserError(f"no split is called {arguments.split!r}; the splits are {', '.join(workloads.SPLITS)}")
    agent = load_agent(arguments.agent)
    programs = [workloads.load(name) for name in names]
    console, results = stdout_console(), []
    for program in programs:
        print(f"diagnosing {program.name}", file=sys.stderr, flush=True)
        diagnosis = diagnose(agent, program, arguments.horizon, arguments.simulations or 0)
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
