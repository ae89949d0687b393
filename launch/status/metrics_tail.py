"""Reads the end of a metric file, to which a run may be writing."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...env.errors import FormatError

# Minutes of figures for a hundred programs.
_TAIL_BYTES = 4 * 2**20
_WINDOW_MINUTES = 1.0


@dataclass(frozen=True)
class Tail:
    """The last lines of a metric file.

    Attributes:
      last: the last line of figures, as `Session.report` writes it; {} if there is none.
      first: the first line of the window, up to a minute of training before; `last` itself if there is no other.
      damaged: number of unreadable lines, not counting the last, which may be incomplete.
    """

    last: dict[str, Any]
    first: dict[str, Any]
    damaged: int

    @property
    def window_s(self) -> float:
        """Seconds of training between the two lines."""
        return 60 * (number(self.last, "minutes") - number(self.first, "minutes"))

    def grown(self, name: str) -> float:
        """Returns the growth in the window of a figure that never decreases."""
        return max(0.0, number(self.last, name) - number(self.first, name))


def number(line: dict[str, Any], name: str) -> float:
    """Returns a figure of a line, or 0 if the line lacks it."""
    value = line.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


def read_tail(path: Path) -> Tail:
    """Reads the end of a metric file; a missing file counts as empty. Raises FormatError if it cannot be read."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - _TAIL_BYTES))
            data = file.read(_TAIL_BYTES)
    except FileNotFoundError:
        return Tail({}, {}, 0)
    except OSError as error:
        raise FormatError(f"{path}: cannot be read ({error.strerror or error}); check its rights") from error
    texts = data.split(b"\n")[:-1]  # The text after the last line break is incomplete.
    if size > _TAIL_BYTES:
        texts = texts[1:]
    lines, damaged = [], 0
    for text in texts:
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            line = None
        if not isinstance(line, dict) or not all(map(_is_figure, line.values())):
            damaged += 1
        elif "play/moves" in line:  # Lines of evaluations lack it.
            lines.append(line)
    if not lines:
        return Tail({}, {}, damaged)
    last = lines[-1]
    begin = number(last, "minutes") - _WINDOW_MINUTES
    first = next((line for line in lines if number(line, "minutes") >= begin), last)
    return Tail(last, first, damaged)


def _is_figure(value: Any) -> bool:
    return value is None or (type(value) in (int, float) and abs(value) < 1e300)
