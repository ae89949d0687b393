"""`mallocmuzero solve`: maps a program with a solver, classical or learned."""

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ..terminal.json_output import add_json_option, check_json, write_json
from ..terminal.mode import is_live, say

if TYPE_CHECKING:
    from rich.status import Status as RichStatus

    from ...solvers.common.budget import Status

_LINE_SECONDS = 5.0
# Columns of the spinner before a live line: a longer line would wrap, and the next one would leave half of it behind.
_SPINNER_COLUMNS = 2


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the command to the parser."""
    parser = subparsers.add_parser(
        "solve",
        help="map a program with a solver",
        description="Maps a program with a trained policy and a search, or with a classical solver. Shows the mapping "
        "beside XLA's; guided and policy never return a worse one than XLA's. The time limit and Ctrl-C keep the best "
        "mapping so far.",
    )
    parser.add_argument("program", metavar="PROGRAM", help="name of a workload, or a program file")
    parser.add_argument(
        "--solver",
        default="guided",
        metavar="NAME",
        help="guided (the default): changes that the policy proposes, then annealing; policy: the policy alone, which "
        "ends by itself; anneal: no policy; or another of docs/solvers.md",
    )
    parser.add_argument(
        "--policy",
        metavar="FILE|RUN_DIR",
        help="for guided and policy: a policy file or a run directory; by default the shipped policy",
    )
    parser.add_argument(
        "--placebo",
        metavar="untrained|shuffled|none",
        help="for guided and policy: what plays in the policy's place, to see what the policy is worth",
    )
    parser.add_argument("--seconds", type=float, metavar="S", help="time limit; 60 if there is no limit at all")
    parser.add_argument(
        "--evaluations", type=int, metavar="N", help="limit of games; equal seeds then give equal mappings"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the solver; by default 0")
    parser.add_argument("--objective", metavar="O", help="robust (the default where it can be), msa or cycles")
    parser.add_argument(
        "--repack",
        action="store_true",
        help="at the end, pack the mapping anew and fill the fast memory that this frees (guided and policy always do)",
    )
    parser.add_argument(
        "--workers",
        type=int,
        default=1,
        metavar="N",
        help="processes that search at once, best no more than cores; each has a seed of its own and the whole budget, "
        "and the best mapping is kept",
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="MAPPING", help="the mapping, .json.gz")
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; 130 or 143 if a signal ended it early, with the best mapping so far written."""
    from ...env.workloads import is_workload
    from ..api.solve import prepare
    from ..terminal.console import show_line, show_result
    from ..terminal.stop import StopRequest

    check_json(arguments)

    def note(line: str) -> None:
        # The first line of the table's output; with `--json -` standard output is JSON alone.
        print(line, file=sys.stderr if arguments.json == "-" else sys.stdout, flush=True)

    search = prepare(
        arguments.program,
        solver=arguments.solver,
        seconds=arguments.seconds,
        evaluations=arguments.evaluations,
        seed=arguments.seed,
        objective=arguments.objective,
        policy=arguments.policy,
        placebo=arguments.placebo,
        repack=arguments.repack,
        workers=arguments.workers,
        output=arguments.output,
        note=note,
    )
    with StopRequest() as stop, _Progress() as progress:
        solved = search(progress.show, lambda: bool(stop))
    if arguments.json is not None:
        write_json(solved.as_json(), arguments.json)
    if arguments.json != "-":
        show_result(solved)
        show_line(f"wrote {arguments.output}")
        given = f" --program {arguments.program}" if not is_workload(arguments.program) else ""
        show_line(f"report: mallocmuzero report {arguments.output}{given} -o report.html")
    return stop.status


class _Progress:
    """Shows the solver's progress on standard error: live in a terminal, else as a line every few seconds."""

    def __init__(self) -> None:
        self._live: RichStatus | None = None
        self._terminal = is_live()
        self._shown_at = time.monotonic()

    def __enter__(self) -> "_Progress":
        return self

    def __exit__(self, *exception: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, status: "Status") -> None:
        """Shows a status, unless the last one has just been shown."""
        now = time.monotonic()
        if now - self._shown_at < (0.2 if self._terminal else _LINE_SECONDS):
            return
        self._shown_at = now
        text = f"{status.seconds:.0f} s · {status.evaluations:,} games · {_best(status)} · {status.doing}"
        if not self._terminal:
            say(text)
            return
        from rich.text import Text

        from ..terminal.console import stderr_console

        console, line = stderr_console(), Text(text)
        line.truncate(console.width - _SPINNER_COLUMNS, overflow="ellipsis")
        if self._live is not None:
            self._live.update(line)
        else:
            self._live = console.status(line)
            self._live.start()


def _best(status: "Status") -> str:
    from ..terminal.figures import judged_text

    if status.best_s == float("inf"):
        return "no mapping yet"
    production_us = None if status.production_s is None else status.production_s * 1e6
    return f"best {judged_text(status.best_s * 1e6, production_us, status.objective)}"
