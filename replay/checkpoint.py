"""Checkpoint folders of a replay: a manifest names version, kind and settings, and hashes every file.

A folder appears whole or not at all.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from os import PathLike
from pathlib import Path, PurePosixPath
from typing import Any

from ..env.errors import FormatError, UserError
from ..env.storage.atomic import sha256_of, sync_and_hash, sync_folder
from .config import ReplayConfig
from .segment import SegmentSpec

VERSION = 1
MANIFEST = "replay.json"
_MOST_MANIFEST_BYTES = 64 * 2**20
# The stored data depend on these settings.
_FIXED_SETTINGS = ("capacity", "priority_exponent")


@contextmanager
def publish(
    directory: str | PathLike[str], kind: str, config: ReplayConfig, spec: SegmentSpec
) -> Iterator[tuple[Path, dict]]:
    """Yields a scratch folder and a dict for further manifest entries; on leaving, they become `directory`.

    Raises:
      UserError: `directory` exists and is not an empty folder, or something could not be written.
    """
    target = Path(directory)
    try:
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise UserError(f"{target}: is there already; write each replay checkpoint into a new folder")
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
        try:
            extra: dict[str, Any] = {}
            yield scratch, extra
            hashes = {str(path.relative_to(scratch)): sync_and_hash(path) for path in _files(scratch)}
            manifest = {
                "format": "mallocmuzero-replay",
                "version": VERSION,
                "kind": kind,
                "config": asdict(config),
                "spec": asdict(spec),
                "files": hashes,
                **extra,
            }
            (scratch / MANIFEST).write_text(json.dumps(manifest, indent=1))
            sync_and_hash(scratch / MANIFEST)
            os.chmod(scratch, 0o755)  # mkdtemp makes it private.
            os.rename(scratch, target)
            sync_folder(target.parent)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    except OSError as error:
        raise UserError(
            f"{error.filename or target}: cannot write the replay checkpoint: {error.strerror or error}; "
            "free space or choose another folder"
        ) from error


def read(
    directory: str | PathLike[str], kind: str, config: ReplayConfig, spec: SegmentSpec
) -> tuple[dict, ReplayConfig]:
    """Returns the manifest of a whole checkpoint that fits, and the configuration that it was written under.

    Raises:
      FormatError: not a whole replay checkpoint of this version and kind.
      UserError: a setting that the data depend on has another value here.
    """
    folder = Path(directory)
    path = folder / MANIFEST
    try:
        manifest = json.loads(_read_bounded(path))
        if manifest["format"] != "mallocmuzero-replay":
            raise FormatError(f"{path}: format is {manifest['format']!r}, not a replay checkpoint")
        if manifest["version"] != VERSION:
            raise FormatError(
                f"{path}: version is {manifest['version']}, this program reads {VERSION}; use the version that wrote it"
            )
        if manifest["kind"] != kind:
            raise FormatError(
                f"{path}: kind is {manifest['kind']!r}, {kind!r} is needed here; resume in the topology that wrote it"
            )
        for name, expected in manifest["files"].items():
            if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
                raise FormatError(f"{path}: field `files` names {name!r:.60}, which is elsewhere")
            if (folder / name).exists() and not (folder / name).is_file():
                raise FormatError(f"{folder / name}: is no file; take another checkpoint")
            if sha256_of(folder / name) != expected:
                raise FormatError(f"{folder / name}: differs from the hash in {MANIFEST}; take another checkpoint")
        old_config, old_spec = ReplayConfig(**manifest["config"]), SegmentSpec(**manifest["spec"])
    except OSError as error:
        raise FormatError(
            f"{error.filename}: cannot be read ({error.strerror}); not a whole replay checkpoint"
        ) from error
    except FormatError:
        raise
    except (UserError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise FormatError(f"{path}: not a replay checkpoint's manifest ({error!r}); take another checkpoint") from error
    for name, value in asdict(old_spec).items():
        if getattr(spec, name) != value:
            raise UserError(f"{path}: spec.{name} is {value} there and {getattr(spec, name)} here; use the same")
    for name in _FIXED_SETTINGS:
        if getattr(config, name) != getattr(old_config, name):
            raise UserError(
                f"{path}: config.{name} is {getattr(old_config, name)} there and {getattr(config, name)} here; "
                "use the same"
            )
    return manifest, old_config


def load_manifest(directory: Path) -> dict:
    """Returns the manifest of a checkpoint that `read` has accepted."""
    return json.loads((directory / MANIFEST).read_text())


def _read_bounded(path: Path) -> bytes:
    if path.exists() and not path.is_file():
        raise FormatError(f"{path}: is no file; take another checkpoint")  # A pipe or a device would have no end.
    with path.open("rb") as file:
        data = file.read(_MOST_MANIFEST_BYTES + 1)
    if len(data) > _MOST_MANIFEST_BYTES:
        raise FormatError(f"{path}: holds more than {_MOST_MANIFEST_BYTES} bytes; take another checkpoint")
    return data


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())
