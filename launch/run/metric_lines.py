"""Reads the metric file of a run from its beginning, for its learning curves."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...env.errors import FormatError


def read_metric_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yields the lines of figures; none if there is no file. A line that is cut off or damaged is passed over.

    Raises:
      FormatError: the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            for text in file:
                try:
                    line = json.loads(text)
                except ValueError:
                    continue
                if isinstance(line, dict):
                    yield line
    except FileNotFoundError:
        return
    except OSError as error:
        raise FormatError(f"{path}: cannot be read ({error.strerror or error}); check its rights") from error
