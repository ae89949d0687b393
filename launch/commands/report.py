"""`mallocmuzero report`: writes one HTML page about a run, a mapping or a tuning."""

import argparse
import sys
from pathlib import Path

from ..terminal.mode import is_live

_MOST_CHANGES = 300


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the command to the parser."""
    parser = subparsers.add_parser(
        "report",
        help="write an HTML page about a run, a mapping or a tuning",
        description="Writes one HTML file that needs no network: a memory map to zoom into, beside XLA's own; HBM "
        "traffic; what changed and what each change is worth; of a run its learning curves, of a tuning what the "
        "compiler said; bounds; and how to repeat it: docs/report.md.",
    )
    parser.add_argument(
        "subject",
        metavar="RUN_DIR|MAPPING|TUNING",
        help="run directory (or its URL), mapping file, or the file that `tune --json` or `impose --json` wrote",
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE.html", help="the page")
    parser.add_argument(
        "--program", metavar="PROGRAM", help="program file of a mapping or tuning whose program is no workload"
    )
    parser.add_argument(
        "--workload", nargs="+", metavar="NAME", help="programs of the run to show; by default the first four"
    )
    parser.add_argument(
        "--objective", metavar="O", help="robust, msa or cycles; by default the one that the mapping was made for"
    )
    parser.add_argument(
        "--model", metavar="MODEL", help="cost model of the time axis, msa or cycles; by default as the objective"
    )
    parser.add_argument(
        "--changes",
        type=int,
        default=_MOST_CHANGES,
        metavar="N",
        help=f"most differences from XLA's mapping of which to find the worth ({_MOST_CHANGES}); those that promise "
        "most come first",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command."""
    from ...env.errors import UserError
    from ...env.storage.atomic import write_atomically
    from ...env.storage.destination import check_destination
    from ..report.page import make_page
    from ..report.subject import open_subject
    from ..run.url import local_run
    from ..start import needs
    from ..terminal.compiling import compile_kernels
    from ..terminal.console import show_line

    output: Path = arguments.output
    if output.suffix.lower() not in (".html", ".htm"):
        raise UserError(f"{output}: a report is an .html file; rename it")
    check_destination(output, "-o")
    if arguments.changes < 0:
        raise UserError(f"--changes {arguments.changes} is none; give 0 or more")
    with local_run(arguments.subject) as path:
        subject = open_subject(path, arguments.program, arguments.workload)
        compile_kernels(needs.REPORT)
        page = make_page(
            subject,
            objective=arguments.objective,
            model=arguments.model,
            most_changes=arguments.changes,
            progress=_say_progress,
        )
    write_atomically(output, page.encode())
    show_line(f"wrote {output}; open it in a browser")
    return 0


def _say_progress(program: str, done: int, total: int) -> None:
    if is_live():
        end = "\n" if done == total else ""
        print(f"\r{program}: {done} of {total} changes put back", end=end, file=sys.stderr, flush=True)
