"""The command line `mallocmuzero`: finds the command, runs it, and reports errors in one line."""

import argparse
import importlib
import signal
import sys
from collections.abc import Sequence

from ..env.errors import UserError
from ..version import VERSION
from .missing import advice
from .refused import refusal
from .start.collector import collect_seldom
from .terminal.arguments import CommandParser, OneLineParser
from .terminal.mode import command_mode
from .terminal.outputs import check_apart
from .terminal.standard_streams import STDOUT, abandon_output, open_streams
from .terminal.stop import catch_interrupts, forget_interrupts, was_interrupted

# In the order of the help text.
COMMANDS = (
    "tune",
    "capture",
    "solve",
    "bound",
    "verify",
    "show",
    "report",
    "impose",
    "confirm",
    "measure",
    "train",
    "status",
    "evaluate",
    "diagnose",
    "export",
    "workloads",
    "settings",
    "pack",
    "completion",
)
USAGE_STATUS = 2
INTERRUPT_STATUS = 130
PIPE_STATUS = 141
_EXIT_STATUSES = """exit status:
  0    done
  1    `verify` found violations, `pack` found no solution, `confirm` found that options do not hold, or `measure` found
       that they do harm
  2    an argument or a file cannot be used; one line on standard error says why and how to fix it
  130  stopped by Ctrl-C; the results so far have been written
  141  stopped because nobody reads its output any more, e.g. `| head`
  143  stopped by SIGTERM; the results so far have been written
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status (see `_EXIT_STATUSES`)."""
    forget_interrupts()
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        print("mallocmuzero: stopped", file=sys.stderr)
        return INTERRUPT_STATUS
    except Exception:
        # Ctrl-C in the middle of a library may surface as another error.
        if not was_interrupted():
            raise
        print("mallocmuzero: stopped", file=sys.stderr)
        return INTERRUPT_STATUS


def _run(arguments: Sequence[str] | None) -> int:
    """Runs one command and returns its exit status. Handles user errors, files that the system refuses, and a closed
    output pipe."""
    try:
        arguments = sys.argv[1:] if arguments is None else arguments
        if not arguments:
            make_parser().print_help(sys.stderr)
            return USAGE_STATUS
        if sys.stdout is None:
            raise UserError(f"{STDOUT}: is closed; send it to a file, a pipe or /dev/null")
        parsed = _parse(arguments)
        check_apart(parsed)
        with command_mode(getattr(parsed, "quiet", False)):
            status: int = parsed.run(parsed)
        sys.stdout.flush()
        return status
    except UserError as error:
        if was_interrupted():
            raise
        print(f"mallocmuzero: error: {_one_line(str(error))}", file=sys.stderr)
        return USAGE_STATUS
    except ModuleNotFoundError as error:
        said = advice(error)
        if said is None or was_interrupted():
            raise
        print(f"mallocmuzero: error: {said}", file=sys.stderr)
        return USAGE_STATUS
    except OSError as error:
        if isinstance(error, BrokenPipeError) and error.filename == STDOUT:
            return PIPE_STATUS
        said = refusal(error)
        if said is None or was_interrupted():
            raise
        print(f"mallocmuzero: error: {_one_line(said)}", file=sys.stderr)
        return USAGE_STATUS


def entry() -> None:
    """Runs the command line as a process of its own, in which Ctrl-C never shows a traceback."""
    open_streams()
    catch_interrupts()
    collect_seldom()
    try:
        status = main()
    finally:
        abandon_output()
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing is left to report while the process ends
    sys.exit(status)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Returns the parsed arguments. Raises UserError for a command that does not exist."""
    from ..env.suggestion import unknown

    command = next((argument for argument in arguments if not argument.startswith("-")), None)
    if command is not None and command not in COMMANDS:
        raise UserError(unknown("command", command, COMMANDS))
    try:
        return make_parser().parse_args(arguments)
    except SystemExit:
        sys.stdout.flush()  # of `--help` and `--version`, as a part of the command
        raise


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the whole command line; it raises UserError for what it cannot parse."""
    parser = OneLineParser(
        prog="mallocmuzero",
        description="Maps the tensors of TPU programs to fast memory, and makes compiler options of the mappings.",
        epilog=_EXIT_STATUSES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"mallocmuzero {VERSION}")
    parser.set_defaults(parser=parser)
    _add_quiet(parser)
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=CommandParser)
    for name in COMMANDS:
        importlib.import_module(f".commands.{name}", __package__).add_parser(subparsers)
    for command in subparsers.choices.values():
        _add_quiet(command)
    return parser


def _add_quiet(parser: argparse.ArgumentParser) -> None:
    """Adds `--quiet`, which is understood before and after the command."""
    parser.add_argument(
        "-q",
        "--quiet",
        action="store_true",
        default=argparse.SUPPRESS,
        help="no progress on standard error: only errors and warnings",
    )


def _one_line(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    entry()
