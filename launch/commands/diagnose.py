"""`mallocmuzero diagnose`: the errors of an agent's model, value and policy, and the gains of its changes."""

import argparse
from pathlib import Path

from ..terminal.json_output import add_json_option, check_json, write_json

# Beyond the end of a line of play, imagined steps are compared with nothing; no program has so many decisions.
_MOST_STEPS = 100_000


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the command to the parser."""
    parser = subparsers.add_parser(
        "diagnose",
        help="measure the errors of an agent of `train --game access`",
        description="Compares the model, values and policy of an agent of `train --game access` with the real game. "
        "Lists the decisions of XLA's production mapping that it would change, with the gain of each: "
        "docs/diagnosis.md.",
    )
    parser.add_argument(
        "agent",
        metavar="RUN_DIR|POLICY",
        help="run directory of `mallocmuzero train --game access`, a policy file of one, or a learner's checkpoint "
        "folder",
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
    from ...actors.diagnosis.verdict import verdict
    from ...env import workloads
    from ...env.errors import UserError
    from ...env.storage.destination import check_destination
    from ..config.limits import MOST_SIMULATIONS
    from ..diagnosis.load import load_agent
    from ..diagnosis.pictures import draw
    from ..diagnosis.tables import heading, tables
    from ..start import needs
    from ..terminal.compiling import compile_kernels
    from ..terminal.console import show_line, show_table
    from ..terminal.mode import say

    check_json(arguments)
    if arguments.output is not None:
        if arguments.output.exists() and not arguments.output.is_dir():
            raise UserError(f"-o {arguments.output}: is a file; give a folder")
        check_destination(_existing(arguments.output) / "picture", "-o")
    for name, most in (("simulations", MOST_SIMULATIONS), ("horizon", _MOST_STEPS)):
        value = getattr(arguments, name)
        if value is not None and not 1 <= value <= most:
            raise UserError(f"--{name} is {value}; it must be from 1 to {most:,}")
    names = arguments.workload
    if arguments.split is not None:
        names = workloads.names_of(arguments.split)
    agent = load_agent(arguments.agent)
    programs = [workloads.load(name) for name in names]
    compile_kernels(needs.DIAGNOSE)
    results = []
    for program in programs:
        say(f"diagnosing {program.name}")
        diagnosis = diagnose(agent, program, horizon=arguments.horizon, simulations=arguments.simulations or 0)
        sentences = verdict(diagnosis)
        results.append({**diagnosis.as_json(), "verdict": sentences})
        written = [] if arguments.output is None else draw(diagnosis, arguments.output)
        if arguments.json != "-":
            show_line(heading(diagnosis))
            for table in tables(diagnosis):
                show_table(table)
            show_line("\n".join(("Verdict:", *(f"- {sentence}" for sentence in sentences))))
            for path in written:
                show_line(f"wrote {path}")
    if arguments.json is not None:
        write_json(results, arguments.json)
    return 0


def _existing(folder: Path) -> Path:
    """Returns the nearest existing folder; missing folders below it are made later."""
    return next(path for path in (folder, *folder.absolute().parents) if path.exists())
