"""Reads the sizes of values from a dumped buffer assignment (pipeline step 2)."""

import re
from pathlib import Path

from ..errors import FormatError
from .hlo import Position

_ASSIGNED = re.compile(r"value: <\d+ ([\w.\-]+)(?:\{([\d,]*)\})?(?: \(phi\))? @\d+> \(size=(\d+),offset=\d+\)")


def read_sizes(path: Path) -> dict[Position, int]:
    """Returns the padded size in bytes of every value, by its definition.

    Args:
      path: a dumped buffer assignment.

    Raises:
      FormatError: the file is not a buffer assignment.
    """
    sizes: dict[Position, int] = {}
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            for line in file:
                match = _ASSIGNED.search(line)
                if match:
                    index = tuple(int(part) for part in (match.group(2) or "").split(",") if part)
                    sizes[match.group(1), index] = int(match.group(3))
    except OSError as error:
        raise FormatError(f"{path}: cannot be read ({error.strerror}); capture again") from error
    if not sizes:
        raise FormatError(f"{path}: lists no values with their sizes; it is no buffer assignment: capture again")
    return sizes
