"""The command line `mallocmuzero`: finds the command, runs it, and reports errors in one line."""

import argparse
import importlib
import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from ..env.errors import UserError
from ..version import VERSION
from .missing import advice
from .start.collector import collect_seldom
from .terminal.mode import command_mode
from .terminal.outputs import check_apart
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
_EXIT_STATUSES = """exit status:
  0    done
  1    `verify` found violations, `pack` found no solution, `confirm` found that options do not hold, or `measure` found
       that they do harm
  2    an argument or a file cannot be used; one line on standard error says why and how to fix it
  130  stopped by Ctrl-C; the results so far have been written
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
    """Runs one command and returns its exit status. Handles user errors and a closed output pipe."""
    try:
        arguments = sys.argv[1:] if arguments is None else arguments
        if not arguments:
            make_parser().print_help(sys.stderr)
            return USAGE_STATUS
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
    except BrokenPipeError:
        # The output's reader is gone, e.g. `| head`; without this the interpreter complains as it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return USAGE_STATUS


def entry() -> None:
    """Runs the command line as a process of its own, in which Ctrl-C never shows a traceback."""
    catch_interrupts()
    collect_seldom()
    try:
        status = main()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing is left to report while the process ends
    sys.exit(status)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Returns the parsed arguments. Raises UserError for a command that does not exist."""
    from ..env.suggestion import unknown

    command = next((argument for argument in arguments if not argument.startswith("-")), None)
    if command is not None and command not in COMMANDS:
        raise UserError(unknown("command", command, COMMANDS))
    return make_parser().parse_args(arguments)


class _Parser(argparse.ArgumentParser):
    """A parser whose errors, and those of its commands, are one line like all others."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; see `{self.prog} --help`")


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the whole command line; it raises UserError for what it cannot parse."""
    parser = _Parser(
        prog="mallocmuzero",
        description="Maps the tensors of TPU programs to fast memory, and makes compiler options of the mappings.",
        epilog=_EXIT_STATUSES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"mallocmuzero {VERSION}")
    parser.set_defaults(parser=parser)
    _add_quiet(parser)
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
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
