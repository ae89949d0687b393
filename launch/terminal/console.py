"""Consoles for results on standard output and for everything else on standard error."""

import sys
from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.table import Table

from .fitted import Fitted
from .mode import is_quiet

if TYPE_CHECKING:
    from .shown import Shown

# A file or pipe has no width, so no table meets its limit.
_NO_LIMIT = 100_000


class _Console(Console):
    """A console that leaves a pipe without a reader to the command line, rather than end the process itself."""

    def on_broken_pipe(self) -> None:
        """Raises the error that is being handled."""
        raise


def stdout_console() -> Console:
    """Returns the console on standard output, which is the result; plain text if that is no terminal."""
    return _console(sys.stdout)


def stderr_console() -> Console:
    """Returns the console on standard error, for everything that is not the result."""
    return _console(sys.stderr, quiet=is_quiet())


def _console(file: TextIO, quiet: bool = False) -> Console:
    """Returns a console that reads neither markup nor emoji, since names of programs may hold brackets and colons."""
    width = None if file.isatty() else _NO_LIMIT
    return _Console(file=file, width=width, highlight=False, markup=False, emoji=False, quiet=quiet)


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
    """Prints a line on standard output, not wrapped, so that paths in it can be copied."""
    stdout_console().print(line, soft_wrap=True)
