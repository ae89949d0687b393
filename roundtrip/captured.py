"""Captures a function into a temporary file."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..env.capture.capture import capture
from ..env.capture.compilation_files import work_folder
from ..env.program.program import Program


@contextmanager
def captured(
    function: str, target: str, progress: Callable[[str], None], **settings: Any
) -> Iterator[tuple[Program, Path]]:
    """Captures a function, with the cycles of the default compilation; yields the program and its file.

    Args:
      function, target, settings: see `capture`.
      progress: takes one line at a time.

    Raises:
      UserError: an argument cannot be used, or the function cannot be compiled.
      FormatError: capture does not understand the compiler's output.
    """
    with work_folder(None) as folder:
        path = folder / "program.json.gz"

        def say(line: str) -> None:
            progress(line.removeprefix(f"wrote {path}: "))  # The file is temporary.

        yield capture(function, target, path, own_cycles=True, progress=say, **settings), path
