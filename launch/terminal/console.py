"""Consoles for results on standard output and for everything else on standard error."""

import sys
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from .fitted import Fitted
from .mode import is_quiet

if TYPE_CHECKING:
    from ..api.shown import Shown

# A file or pipe has no width, so no table meets its limit.
_NO_LIMIT = 100_000


def stdout_console() -> Console:
    """Returns the console on standard output, which is the result; plain text if that is no terminal."""
    return Console(file=sys.stdout, width=None if sys.stdout.isatty() else _NO_LIMIT, highlight=False)


def stderr_console() -> Console:
    """Returns the console on standard error, for everything that is not the result."""
    width = None if sys.stderr.isatty() else _NO_LIMIT
    return Console(file=sys.stderr, width=width, highlight=False, quiet=is_quiet())


def show_table(table: Table) -> None:
    """Prints a table on standard output, as records where the terminal is too narrow for it."""
    stdout_console().print(Fitted(table))


def show_result(result: "Shown") -> None:
    """Prints a result of the Python front door on standard output."""
    for table in result.tables():
        show_table(table)
    for line in result.lines():
        show_line(line)


def show_line(line: str) -> None:
    """Prints a line on standard output, neither wrapped nor read as markup, so that paths in it can be copied."""
    stdout_console().print(line, soft_wrap=True, markup=False)
