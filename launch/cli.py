"""The command line `mallocmuzero`: finds the command, runs it, and reports errors in one line."""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from ..env.errors import UserError
from ..version import VERSION
from .missing import advice

# In the order of the help text.
COMMANDS = (
    "train",
    "status",
    "evaluate",
    "diagnose",
    "export",
    "verify",
    "bound",
    "show",
    "report",
    "workloads",
    "capture",
    "solve",
    "impose",
    "tune",
    "pack",
)
USAGE_STATUS = 2
INTERRUPT_STATUS = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit status.

    0: success. 1: `verify` found violations, or `pack` no solution. 2: an argument or a file cannot be used; one line
    on standard error says why. 130, 143: stopped by Ctrl-C or by SIGTERM; `train` has saved the run.
    """
    parser = make_parser()
    parsed = parser.parse_args(arguments)
    try:
        status: int = parsed.run(parsed)
        sys.stdout.flush()
        return status
    except UserError as error:
        print(f"mallocmuzero: error: {_one_line(str(error))}", file=sys.stderr)
        return USAGE_STATUS
    except ModuleNotFoundError as error:
        said = advice(error)
        if said is None:
            raise
        print(f"mallocmuzero: error: {said}", file=sys.stderr)
        return USAGE_STATUS
    except KeyboardInterrupt:
        print("mallocmuzero: stopped", file=sys.stderr)
        return INTERRUPT_STATUS
    except BrokenPipeError:
        # The reader of the output has gone, e.g. `| head`; without this the interpreter complains as it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return USAGE_STATUS


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="mallocmuzero",
        description="Learned memory mapping for accelerators: MuZero plays mallocGame on real TPU programs.",
    )
    parser.add_argument("--version", action="version", version=f"mallocmuzero {VERSION}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in COMMANDS:
        importlib.import_module(f".commands.{name}", __package__).add_parser(subparsers)
    return parser


def _one_line(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    sys.exit(main())
