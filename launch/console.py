"""Consoles for tables and progress."""

import sys

from rich.console import Console

# Wide enough for every table: a file or pipe has no width that could wrap them.
_FILE_WIDTH = 140


def stdout_console() -> Console:
    """The console on standard output; plain text when that is no terminal."""
    return Console(file=sys.stdout, width=None if sys.stdout.isatty() else _FILE_WIDTH, highlight=False)


def stderr_console() -> Console:
    """The console on standard error, for everything that is not the result."""
    return Console(file=sys.stderr, width=None if sys.stderr.isatty() else _FILE_WIDTH, highlight=False)
