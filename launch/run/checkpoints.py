"""Checkpoints of a whole run: numbered folders whose manifest, written last, names and hashes every part.

  000007/
    manifest.json    format, version, code version, counters, place in the metric file, programs, hash of every file
                     below and of every part (`checkpoint_parts.py`), and of the manifest itself
    learner/         training state (`learner/checkpoints/checkpoint.py`)
    replay/          the table (`replay/checkpoint.py`)
    actors.json      the state of every actor
    published.msgpack  the parameters that actors play with, and their version
    best/            the best mappings so far
    config.json      the configuration in force

A checkpoint is written under another name and renamed, so a folder with a number is whole unless it was damaged later.
Reading finds the damage, and names the last whole checkpoint before it.
"""

import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...env.errors import FormatError, UserError
from ...env.storage.atomic import sha256_of, sync_and_hash, sync_folder
from .checkpoint_parts import ACTORS, BEST, CONFIG, LEARNER, MANIFEST, PUBLISHED, REPLAY, json_sha256, parts_of
from .code_version import code_version
from .json_file import check_format, is_inside, read_json_file

__all__ = ["ACTORS", "BEST", "CONFIG", "LEARNER", "MANIFEST", "PUBLISHED", "REPLAY", "CannotSave", "RunCheckpoints"]

FORMAT = "mallocmuzero-run-checkpoint"
FORMAT_VERSION = 3

_SCRATCH = ".writing-"
# The replay has already hashed its large files and synced them to the disk.
_REPLAY_MANIFEST = "replay.json"
# While the replay fills, a checkpoint may be this many times as large as the one before it.
_GROWTH = 1.25
_SPARE_BYTES = 2**20


class CannotSave(UserError):
    """A checkpoint cannot be written at present, e.g. because the disk is full. Older checkpoints stay."""


class RunCheckpoints:
    """The checkpoints in one folder, of which the last `keep` stay. One process writes."""

    def __init__(self, directory: Path, keep: int) -> None:
        self._directory = directory
        self._keep = keep
        self._spared: int | None = None
        self._sparing = threading.Lock()

    def numbers(self) -> list[int]:
        """Returns the numbers of the checkpoints in the folder, ascending."""
        return sorted(int(path.name) for path in self._directory.glob("[0-9]*") if path.name.isdecimal())

    def path(self, number: int) -> Path:
        """Returns the folder of a checkpoint, whether it exists or not."""
        return self._directory / f"{number:06d}"

    @contextmanager
    def writing(self) -> Iterator[tuple[Path, dict[str, Any]]]:
        """Yields a folder for the parts and a dict for manifest entries; on exit, they become the next checkpoint.

        Then removes all but the last few checkpoints.

        Raises:
          CannotSave: there is too little space, or a file cannot be written; older checkpoints stay.
        """
        numbers = self.numbers()
        final = self.path(max(numbers, default=0) + 1)
        scratch = self._directory / f"{_SCRATCH}{final.name}"
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            for leftover in self._directory.glob(f"{_SCRATCH}*"):
                shutil.rmtree(leftover)
            if numbers:
                self._check_space(final, self.path(numbers[-1]))
            scratch.mkdir()
            entries: dict[str, Any] = {}
            yield scratch, entries
            files = _hash_files(scratch)
            manifest = {
                "format": FORMAT,
                "version": FORMAT_VERSION,
                "code": code_version(),
                **entries,
                "parts": parts_of(scratch, files, entries),
                "files": files,
            }
            manifest["sha256"] = json_sha256(manifest)
            with (scratch / MANIFEST).open("w", encoding="utf-8") as file:
                json.dump(manifest, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            scratch.rename(final)
            sync_folder(self._directory)
            with self._sparing:
                for old in self.numbers()[: -self._keep]:
                    if old != self._spared:
                        shutil.rmtree(self.path(old))
        except OSError as error:
            raise CannotSave(
                f"{error.filename or final}: cannot write the checkpoint ({error.strerror or error}); free space"
            ) from error
        except UserError as error:
            # A part could not be written.
            if isinstance(error.__cause__, OSError | RuntimeError):
                raise CannotSave(str(error)) from error
            raise
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    @contextmanager
    def spared(self) -> Iterator[int | None]:
        """Yields the number of the last checkpoint, or None; `writing` does not remove it within the context.

        For one thread at a time, beside the one that writes.
        """
        with self._sparing:
            self._spared = max(self.numbers(), default=None)
        try:
            yield self._spared
        finally:
            self._spared = None

    def _check_space(self, final: Path, previous: Path) -> None:
        """Raises CannotSave if the disk has too little space: half a checkpoint would fill it for others too."""
        size = sum(path.stat().st_size for path in previous.rglob("*") if path.is_file())
        needed, free = round(_GROWTH * size) + _SPARE_BYTES, shutil.disk_usage(self._directory).free
        if free < needed:
            raise CannotSave(
                f"{final}: no space for a checkpoint: it may take {needed / 2**20:.1f} MiB, {free / 2**20:.1f} MiB are "
                "free; free space"
            )

    def read(self) -> tuple[Path, dict[str, Any]]:
        """Returns folder and manifest of the last checkpoint.

        Raises:
          UserError: there is none.
          FormatError: it is not whole, or of another version; the message names the last whole one before it.
        """
        numbers = self.numbers()
        if not numbers:
            raise UserError(
                f"{self._directory}: holds no checkpoint, so there is nothing to go on from; start a new run elsewhere"
            )
        folder = self.path(numbers[-1])
        try:
            return folder, read_whole(folder)
        except FormatError as error:
            raise FormatError(f"{error}; {self._way_out(numbers)}") from error

    def _way_out(self, numbers: list[int]) -> str:
        """Returns advice on a last checkpoint that is not whole."""
        for index, number in reversed(list(enumerate(numbers[:-1]))):
            folder = self.path(number)
            try:
                step = read_whole(folder)["counters"].get("step", 0)
            except FormatError:
                continue
            damaged = " ".join(str(self.path(later)) for later in numbers[index + 1 :])
            return f"{folder} (update {step}) is whole: `rm -r {damaged}` to go on from it"
        return "no checkpoint before it is whole; restore it from a copy, or start a new run"


def read_whole(folder: Path) -> dict[str, Any]:
    """Returns the manifest of a checkpoint, after checking it and every file that it names.

    Raises:
      FormatError: a file is damaged, or the checkpoint is of another version.
    """
    path = folder / MANIFEST
    manifest = read_json_file(path)
    check_format(manifest, FORMAT, FORMAT_VERSION, path)
    if not isinstance(manifest.get("files"), dict):
        raise FormatError(f"{path}: field `files` is missing")
    _check_counters(manifest, path)
    for name in manifest["files"]:
        if not is_inside(name):
            raise FormatError(f"{path}: field `files` names {name!r:.60}, which is elsewhere")
    if json_sha256({name: value for name, value in manifest.items() if name != "sha256"}) != manifest.get("sha256"):
        raise FormatError(f"{path}: damaged (its hash has changed)")
    for name, expected in manifest["files"].items():
        # A pipe or a device would have no end.
        if (folder / name).exists() and not (folder / name).is_file():
            raise FormatError(f"{folder / name}: is no file")
        try:
            found = sha256_of(folder / name)
        except OSError as error:
            raise FormatError(f"{folder / name}: cannot be read ({error.strerror})") from error
        if found != expected:
            raise FormatError(f"{folder / name}: damaged (its hash has changed)")
    return manifest


def _check_counters(manifest: dict[str, Any], path: Path) -> None:
    """Raises FormatError if a counter has the wrong type or range."""

    def count(value: Any) -> bool:
        return type(value) is int and 0 <= value < 2**62

    def seconds(value: Any) -> bool:
        return type(value) in (int, float) and 0 <= value < 1e12

    def table(value: Any, kind: Callable[[Any], bool]) -> bool:
        return isinstance(value, dict) and all(kind(item) for item in value.values())

    counters = manifest.get("counters")
    if not isinstance(counters, dict):
        raise FormatError(f"{path}: field `counters` is missing")
    kinds: dict[str, Callable[[Any], bool]] = {
        **dict.fromkeys(("step", "moves", "episodes"), count),
        "seconds": seconds,
        "program_episodes": lambda value: table(value, count),
        "blocked_s": lambda value: table(value, seconds) and {"actors", "learner"} <= value.keys(),
        "restarts": lambda value: table(value, count),
    }
    for name, value in counters.items():
        if name not in kinds or not kinds[name](value):
            raise FormatError(f"{path}: field `counters.{name}` is {value!r:.60}")
    if not count(manifest.get("metrics_offset")):
        raise FormatError(f"{path}: field `metrics_offset` is {manifest.get('metrics_offset')!r:.60}")


def _hash_files(folder: Path) -> dict[str, str]:
    """Syncs all files to the disk; returns the SHA-256 of each, by its path in `folder`."""
    hashed: dict[str, str] = {}
    if (folder / REPLAY / _REPLAY_MANIFEST).exists():
        content = json.loads((folder / REPLAY / _REPLAY_MANIFEST).read_bytes())
        hashed = {f"{REPLAY}/{name}": digest for name, digest in content["files"].items()}
    names = (str(path.relative_to(folder)) for path in sorted(folder.rglob("*")) if path.is_file())
    return {name: hashed.get(name) or sync_and_hash(folder / name) for name in names}
