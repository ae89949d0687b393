"""Standard output and standard error as a process finds them: closed, full, a pipe without a reader, ASCII only."""

import io
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

# The name of the file in errors of standard output, which have none otherwise.
STDOUT = "standard output"


class _Named(io.FileIO):
    """Standard output, whose errors can be told from those of other files."""

    def write(self, data: "ReadableBuffer", /) -> int:
        """Writes bytes; returns how many. Raises OSError with the name of the stream."""
        try:
            return super().write(data)
        except OSError as error:
            raise OSError(error.errno, error.strerror, STDOUT) from error


def open_streams() -> None:
    """Makes standard error something to write to, and standard output something that fails by name alone.

    Characters that standard output cannot encode become question marks. If it is closed, it stays None.
    """
    # A file opened later would get the number of a closed stream, and what libraries print there.
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - open until the process ends
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(_Named(sys.stdout.fileno(), "w", closefd=False)),
            encoding=sys.stdout.encoding,
            errors="replace" if sys.stdout.errors in ("strict", "surrogateescape") else sys.stdout.errors,
            line_buffering=sys.stdout.line_buffering or sys.stdout.write_through,
        )


def abandon_output() -> None:
    """Sends to nowhere what standard output could not take: Python would complain of it as the process ends."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
