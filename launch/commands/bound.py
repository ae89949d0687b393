"""`mallocmuzero bound`: proves a lower bound on the latency of a program, and keeps the best mapping found."""

import argparse
from typing import TYPE_CHECKING

from ..terminal.json_output import add_json_option, check_json, write_json

if TYPE_CHECKING:
    from ...env.bounds.bound import Bound


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the command to the parser."""
    parser = subparsers.add_parser(
        "bound",
        help="bound the latency of every mapping of a program from below",
        description="Proves a lower bound on the latency of every legal mapping of a program (docs/bounds.md), and "
        "looks for mappings that come near. Stop it with Ctrl-C at any time, or let it run longer.",
    )
    parser.add_argument("program", metavar="PROGRAM", help="name of a workload, or a program file")
    parser.add_argument(
        "--objective", metavar="O", help="robust, msa or cycles (default: robust where the program has a cycle table)"
    )
    parser.add_argument(
        "--seconds", metavar="S", type=float, default=60.0, help="time that it may take, approximately (60)"
    )
    parser.add_argument(
        "--scope",
        metavar="WHICH",
        default="legal",
        help="legal: all mappings that verify; unreplaced: those in which no copy replaces an instruction; game: those "
        "with at most one cross-program prefetch besides",
    )
    parser.add_argument("-o", "--output", metavar="MAPPING", help="write the best mapping to this file")
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; 130 or 143 if a signal ended it early, with what it had found by then."""
    from rich.live import Live

    from ..api.bound import prepare
    from ..terminal.console import show_result, stderr_console
    from ..terminal.mode import is_live
    from ..terminal.stop import StopRequest

    check_json(arguments)
    search = prepare(
        arguments.program,
        objective=arguments.objective,
        seconds=arguments.seconds,
        scope=arguments.scope,
        output=arguments.output,
    )
    with StopRequest() as stop, Live(console=stderr_console(), transient=True, auto_refresh=False) as live:

        def report(stage: str, found: "Bound") -> None:
            if is_live():
                live.update(f"{arguments.program}: {_STAGES[stage]} ... {_progress(found)}", refresh=True)

        found = search(report, lambda: bool(stop))
    if arguments.json != "-":
        show_result(found)
        if arguments.output is not None:
            print(f"wrote {arguments.output}")
    if arguments.json is not None:
        write_json(found.as_json(), arguments.json)
    return stop.status


_STAGES = {
    "relaxation": "solving the linear relaxation",
    "mappings": "making mappings of its solution",
    "integer": "solving the mixed-integer program",
    "done": "done",
}


def _progress(found: "Bound") -> str:
    from ..terminal.figures import judged_text

    def text(seconds: float) -> str:
        return judged_text(seconds * 1e6, found.production_s and found.production_s * 1e6, found.objective)

    return f"bound {text(found.bound_s)}; best mapping {text(found.mapping_s)}; {found.seconds:.0f} s"
