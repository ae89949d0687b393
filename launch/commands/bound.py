"""`mallocmuzero bound`: proves a lower bound on the latency of a program, and keeps the best mapping found."""

import argparse
from typing import TYPE_CHECKING, Any

from ..terminal.json_output import add_json_option, write_json

if TYPE_CHECKING:
    from ...env.bounds.bound import Bound
    from ...env.program.program import Program


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
    """Runs the command."""
    from rich.live import Live

    from ...env import workloads
    from ...env.bounds.bound import bound
    from ...env.program.mapping_file import write_mapping
    from ..start import needs
    from ..terminal.compiling import compile_kernels
    from ..terminal.console import stdout_console

    program = workloads.load(arguments.program)
    compile_kernels(needs.BOUND)
    console = stdout_console()
    if arguments.json == "-":
        found = bound(program, arguments.objective, arguments.seconds, arguments.scope)
    else:
        with Live(console=console, transient=True, auto_refresh=False) as live:

            def report(stage: str, found: "Bound") -> None:
                live.update(f"{program.name}: {_STAGES[stage]} ... {_progress(found)}", refresh=console.is_terminal)

            found = bound(program, arguments.objective, arguments.seconds, arguments.scope, report=report)
        _print(program, found)
    if arguments.output is not None:
        write_mapping(found.mapping, program, arguments.output)
    if arguments.json is not None:
        write_json(describe(program, found), arguments.json)
    return 0


_STAGES = {
    "relaxation": "solving the linear relaxation",
    "mappings": "making mappings of its solution",
    "integer": "solving the mixed-integer program",
    "done": "done",
}


def _progress(found: "Bound") -> str:
    return f"bound {_us(found.bound_s)}, best mapping {_us(found.mapping_s)}, {found.seconds:.0f} s"


def describe(program: "Program", found: "Bound") -> dict[str, Any]:
    """Returns the object that `--json` writes (docs/json.md)."""

    def us(seconds: float | None) -> float | None:
        return None if seconds is None else seconds * 1e6

    return {
        "program": program.name,
        "program_sha256": program.sha256,
        "objective": found.objective,
        "scope": found.scope,
        "floor": us(found.floor_s),
        "relaxation": us(found.relaxation_s),
        "integer": us(found.integer_s),
        "bound": us(found.bound_s),
        "bound_proved": found.proved,
        "best": us(found.mapping_s),
        "found": us(found.found_s),
        "production": us(found.production_s),
        "gap": found.gap,
        "optimal": found.optimal,
        "cut_short": found.cut_short,
        "seconds": found.seconds,
        "columns": found.size[0],
        "rows": found.size[1],
        "integers": found.size[2],
    }


def _print(program: "Program", found: "Bound") -> None:
    from rich.table import Table

    from ..terminal.console import stdout_console

    table = Table(title=f"{program.name}: us of {found.objective}, {_SCOPES[found.scope]}", show_header=False)
    table.add_row("floor: every instruction at its fastest, copies free", _us(found.floor_s))
    table.add_row("linear relaxation, certified", _us(found.relaxation_s))
    table.add_row("mixed-integer program, dual value", _us(found.integer_s))
    table.add_row("bound: no mapping takes less", _us(found.bound_s))
    table.add_row("mapping made from the solutions", _us(found.found_s))
    table.add_row("XLA's own mapping", _us(found.production_s))
    proved = ": proved to be optimal" if found.proved else f": at most {found.gap:.2%} from optimal"
    table.add_row(f"best of these{proved}", _us(found.mapping_s))
    console = stdout_console()
    console.print(table)
    if found.cut_short:
        console.print("The limit of time ended it: with more --seconds the bound may be tighter.")
    console.print(
        "Dropped, so that it stays a bound: offsets and alignment, the order of copies, limits on copies in flight, "
        "and what docs/bounds.md lists."
    )


_SCOPES = {
    "legal": "all legal mappings",
    "unreplaced": "mappings that replace no instruction",
    "game": "mappings that the game can play",
}


def _us(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e6:.2f}"
