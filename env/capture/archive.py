"""What one compilation leaves behind, cut down to what is read, and kept so that a capture that was stopped goes on."""

import hashlib
import json
import os
import shutil
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

from . import worker

# What is read of a compilation (`assemble.py`). The dumps from before memory space assignment are read of the default.
BEFORE = "*.after_optimizations_before_buffer_assignment.txt"
ASSIGNMENT = "*.after_optimizations-buffer-assignment.txt"
ANSWER_FILE = "answer.json"
_FORMAT = 1


def cut_down(folder: Path, *, dumps: bool, costs: bool) -> None:
    """Removes what nothing reads: other dumps, repeated lines of the log.

    Args:
      folder: of one compilation.
      dumps: keep the dumps from before memory space assignment.
      costs: keep the costs of instructions in the log.
    """
    compiled, log = folder / worker.COMPILED_FILE, folder / worker.LOG_FILE
    assigned = sorted(folder.glob("*" + worker.ASSIGNED))
    if not compiled.exists() and assigned:
        assigned[0].rename(compiled)
    keep = {compiled, log, folder / ANSWER_FILE, folder / worker.MODULE_FILE}
    if dumps:
        keep |= {*folder.glob(BEFORE), *folder.glob(ASSIGNMENT)}
    for path in folder.iterdir():
        if path not in keep:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
    if log.exists():
        _cut_log(log, costs)


def _cut_log(log: Path, costs: bool) -> None:
    """A log repeats the cost of an instruction each time it is asked for."""
    seen: set[bytes] = set()
    short = log.with_suffix(".short")
    with log.open("rb") as source, short.open("wb") as target:
        for line in source:
            head, found, text = line.partition(b"]")
            if not found:
                continue
            name = head.rpartition(b" ")[2].partition(b":")[0]
            if name.endswith(b"op_cost.cc"):
                if not costs or text in seen:
                    continue
                seen.add(text)
            elif not name.endswith((b"algorithm.cc", b"memory_space_assignment.cc", b"simulator.cc")):
                continue
            target.write(line)
    os.replace(short, log)


class Archive:
    """A folder of finished compilations, by what was compiled.

    Args:
      folder: made if it is not there.
      described: whatever else than options the result depends on.
    """

    def __init__(self, folder: Path, described: Mapping[str, str]) -> None:
        self._folder, self._described = folder, dict(described)

    def _path(self, name: str, request: Mapping[str, object]) -> Path:
        text = json.dumps([_FORMAT, self._described, dict(request)], sort_keys=True)
        return self._folder / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.tar.gz"

    def fetch(self, name: str, request: Mapping[str, object], folder: Path) -> bool:
        """Unpacks a finished compilation into `folder`; returns whether there is one."""
        path = self._path(name, request)
        if not path.exists():
            return False
        with tarfile.open(path, "r:gz") as packed:
            packed.extractall(folder, filter="data")
        return True

    def store(self, name: str, request: Mapping[str, object], folder: Path) -> None:
        """Packs a finished compilation, whole or not at all."""
        path = self._path(name, request)
        path.parent.mkdir(parents=True, exist_ok=True)
        with (
            tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file,
            tarfile.open(fileobj=file, mode="w:gz", compresslevel=3) as packed,
        ):
            for entry in sorted(folder.iterdir()):
                packed.add(entry, entry.name)
        os.replace(file.name, path)
