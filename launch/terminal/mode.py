"""The mode of this process: a command or a library, quiet or not. Loads nothing, since every command imports it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


class _Mode:
    command = False
    quiet = False


@contextmanager
def command_mode(quiet: bool) -> Iterator[None]:
    """Makes this process a command while the context lasts: Ctrl-C may end it, and `quiet` silences its progress."""
    before = _Mode.command, _Mode.quiet
    _Mode.command, _Mode.quiet = True, quiet
    try:
        yield
    finally:
        _Mode.command, _Mode.quiet = before


def is_command() -> bool:
    """Returns whether this process is a command, rather than a program that uses the library."""
    return _Mode.command


def is_quiet() -> bool:
    """Returns whether standard error is kept for errors and warnings."""
    return _Mode.quiet


def is_live() -> bool:
    """Returns whether standard error is a terminal that may show something that moves."""
    return sys.stderr.isatty() and not is_quiet()


def say(line: str) -> None:
    """Prints a line of progress on standard error, unless this process is quiet."""
    if not is_quiet():
        print(line, file=sys.stderr, flush=True)
