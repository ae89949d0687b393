"""Records of runs on disk: one JSON object per line, appended under a lock.

Several processes may write one file, and files may be joined with `cat`.
"""

import fcntl
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).parents[2]

Record = dict[str, Any]
# Values of the fields that distinguish one run from another.
Key = tuple[Any, ...]
K = TypeVar("K")


def keyed_by(*fields: str) -> Callable[[Record], Key]:
    """Returns a function from a record to its key: the values of `fields`, with dictionaries made hashable."""

    def key_of(record: Record) -> Key:
        return tuple(_hashable(record[field]) for field in fields)

    return key_of


def _hashable(value: Any) -> Any:
    return json.dumps(value, sort_keys=True) if isinstance(value, dict | list) else value


def read_runs(paths: Iterable[Path], key_of: Callable[[Record], K]) -> Iterator[tuple[K, Record]]:
    """Yields the records of some files with their keys, in the order of the files; a missing file has no records.

    Raises:
      SystemExit: a line is not a record.
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
    """Appends a record to a file, safely beside other writers."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(json.dumps(record, sort_keys=True) + "\n")
