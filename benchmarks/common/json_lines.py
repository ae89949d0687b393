"""Runs on disk: one JSON object per line, appended under a lock, so that many may write and files may be joined with
`cat`."""

import fcntl
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).parents[2]

Record = dict[str, Any]
K = TypeVar("K")


def read_runs(paths: Iterable[Path], key_of: Callable[[Record], K]) -> Iterator[tuple[K, Record]]:
    """Yields the runs of some files with their keys, in the order of the files; a file that is not there has none.

    Raises:
      SystemExit: a line is no run.
    """
    for path in paths:
        if not path.exists():
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            try:
                record = json.loads(line)
                key = key_of(record)
            except (ValueError, KeyError, TypeError) as error:
                raise SystemExit(f"{path}:{number}: is not a run ({error}); delete the line") from error
            yield key, record


def append(path: Path, record: Record) -> None:
    """Adds a run to a file, whoever else writes there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(json.dumps(record, sort_keys=True) + "\n")
