"""Whether the files that a command writes are apart from each other and from those that it reads."""

import argparse
import os
from pathlib import Path
from typing import Any

from ...env.errors import UserError

# The arguments that name files to write, with the options that users know them by.
_WRITTEN = {"output": "-o", "program_output": "--program-output", "json": "--json"}


def check_apart(arguments: argparse.Namespace) -> None:
    """Checks that no output would replace an input or another output.

    Raises:
      UserError: two arguments name the same file.
    """
    given = vars(arguments)
    outputs = {option: given.get(name) for name, option in _WRITTEN.items()}
    written = {option: Path(path) for option, path in outputs.items() if path is not None and str(path) != "-"}
    read = [path for name, value in given.items() if name not in _WRITTEN for path in _files(value)]
    seen: dict[str, str] = {}
    for option, path in written.items():
        place = os.path.realpath(path)
        if place in seen:
            raise UserError(f"{option} {path}: {seen[place]} names the same file; give each a file of its own")
        seen[place] = option
        if any(os.path.realpath(one) == place for one in read):
            raise UserError(f"{option} {path}: the command reads this file, and would replace it; choose another name")


def _files(value: Any) -> list[str]:
    """Returns the regular files that the value of an argument names."""
    values = value if isinstance(value, list | tuple) else [value]
    return [str(one) for one in values if isinstance(one, str | Path) and os.path.isfile(one)]
