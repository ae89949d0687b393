"""A small program to be written to a file, and edits that spoil the file."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from programs import make_program

from mallocmuzero.env.program.program import Program


def small_program() -> Program:
    return make_program(
        [("a", 1.0, ["x"], ["y"]), ("b", 1.0, ["y"], ["z"]), ("c", 1.0, ["z"], ["z"])],
        {"x": {"size": 16, "input": True}, "y": 64, "z": {"size": 16, "output": True}},
        loops=[(1, 1, 3)],
    )


def change(path: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    document = json.loads(gzip.decompress(path.read_bytes()))
    edit(document)
    path.write_bytes(gzip.compress(json.dumps(document).encode()))


def setting(*place: str | int, value: Any) -> Callable[[dict[str, Any]], None]:
    def edit(document: Any) -> None:
        for part in place[:-1]:
            document = document[part]
        document[place[-1]] = value

    return edit


def removing(*place: str) -> Callable[[dict[str, Any]], None]:
    def edit(document: Any) -> None:
        for part in place[:-1]:
            document = document[part]
        del document[place[-1]]

    return edit
