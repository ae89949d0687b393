"""Consoles for tables and progress, on standard output and standard error."""

import sys

from rich.console import Console

# A file or pipe has no width; this one is wide enough for every table.
_FILE_WIDTH = 140


def stdout_console() -> Console:
    """Returns the console on standard output, which is the result; plain text if that is no terminal."""
    return Console(file=sys.stdout, width=None if sys.stdout.isatty() else _FILE_WIDTH, highlight=False)


def stderr_console() -> Console:
    """Returns the console on standard error, for everything that is not the result."""
    return Console(file=sys.stderr, width=None if sys.stderr.isatty() else _FILE_WIDTH, highlight=False)
