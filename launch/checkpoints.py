"""Checkpoints of a whole run: one folder each, whose manifest is written last and names and hashes every part.

  000007/
    manifest.json    format, version, code version, counters, place in the metric file, hash of every file below
    learner/         training state (`learner/checkpoint.py`)
    replay/          the table (`replay/checkpoint.py`)
    actors.json      where every actor stands
    published.msgpack  the parameters that actors play with, and their version
    best/            the best mappings so far

The learner's and the replay's own manifests hash their large files; here those manifests are hashed. Checkpoints are
numbered; a folder with a number is whole unless someone damaged it later: it is written under another name and renamed.
"""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..env.durable import sha256_of, sync_and_hash, sync_folder
from ..env.errors import FormatError, UserError
from .code_version import code_version
from .run_directory import check_format, read_json_file

FORMAT = "mallocmuzero-run-checkpoint"
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
LEARNER, REPLAY, ACTORS, PUBLISHED, BEST = "learner", "replay", "actors.json", "published.msgpack", "best"

_SCRATCH = ".writing-"
# Parts that hash their own files, in a manifest of this name.
_OWN_MANIFESTS = {LEARNER: "manifest.json", REPLAY: "replay.json"}


class RunCheckpoints:
    """The checkpoints in one folder. One process writes."""

    def __init__(self, directory: Path, keep: int) -> None:
        self._directory = directory
        self._keep = keep

    def numbers(self) -> list[int]:
        """Numbers of the checkpoints there are, ascending."""
        return sorted(int(path.name) for path in self._directory.glob("[0-9]*") if path.name.isdecimal())

    def path(self, number: int) -> Path:
        """The folder of a checkpoint, whether there is one or not."""
        return self._directory / f"{number:06d}"

    @contextmanager
    def writing(self) -> Iterator[tuple[Path, dict[str, Any]]]:
        """Yields a folder for the parts and a dict for the manifest's further entries; makes them the next checkpoint.

        All but the last few are removed.

        Raises:
          UserError: something cannot be written, e.g. because the disk is full; older checkpoints stay.
        """
        final = self.path(max(self.numbers(), default=0) + 1)
        scratch = self._directory / f"{_SCRATCH}{final.name}"
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            for leftover in self._directory.glob(f"{_SCRATCH}*"):
                shutil.rmtree(leftover)
            scratch.mkdir()
            entries: dict[str, Any] = {}
            yield scratch, entries
            manifest = {
                "format": FORMAT,
                "version": FORMAT_VERSION,
                "code": code_version(),
                **entries,
                "files": {str(path.relative_to(scratch)): sync_and_hash(path) for path in _parts(scratch)},
            }
            with (scratch / MANIFEST).open("w", encoding="utf-8") as file:
                json.dump(manifest, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            scratch.rename(final)
            sync_folder(self._directory)
            for old in self.numbers()[: -self._keep]:
                shutil.rmtree(self.path(old))
        except OSError as error:
            raise UserError(
                f"{error.filename or final}: cannot write the checkpoint ({error.strerror or error}); free space"
            ) from error
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def read(self) -> tuple[Path, dict[str, Any]]:
        """Returns folder and manifest of the last checkpoint.

        Raises:
          UserError: there is none.
          FormatError: it is not whole, or of another version.
        """
        numbers = self.numbers()
        if not numbers:
            raise UserError(
                f"{self._directory}: holds no checkpoint, so there is nothing to go on from; start a new run elsewhere"
            )
        folder = self.path(numbers[-1])
        mend = f"remove {folder} to go on from the checkpoint before it" if len(numbers) > 1 else "start a new run"
        manifest = read_json_file(folder / MANIFEST)
        check_format(manifest, FORMAT, FORMAT_VERSION, folder / MANIFEST)
        if not isinstance(manifest.get("files"), dict):
            raise FormatError(f"{folder / MANIFEST}: field `files` is missing; {mend}")
        for name, expected in manifest["files"].items():
            try:
                found = sha256_of(folder / name)
            except OSError as error:
                raise FormatError(f"{folder / name}: cannot be read ({error.strerror}); {mend}") from error
            if found != expected:
                raise FormatError(f"{folder / name}: damaged (its hash has changed); {mend}")
        return folder, manifest


def _parts(folder: Path) -> list[Path]:
    """The files that a run's manifest hashes itself."""
    parts = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        own = _OWN_MANIFESTS.get(path.relative_to(folder).parts[0])
        if own is None or path.name == own:
            parts.append(path)
    return parts
