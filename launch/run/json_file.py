"""The small JSON files of a run directory: written whole or not at all, read with a limit of size."""

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from ...env.errors import FormatError
from ...env.storage.atomic import write_atomically

# Far above the size of any such file, and small enough that a hostile one cannot exhaust memory.
MAX_BYTES = 64 * 2**20


def write_json_file(path: Path, value: Any) -> None:
    """Writes a JSON file, which appears whole or not at all. Raises UserError if it cannot be written."""
    write_atomically(path, (json.dumps(value, indent=1) + "\n").encode())


def read_json_file(path: Path) -> dict[str, Any]:
    """Returns the object in a JSON file. Raises FormatError if it holds none."""
    return parse_json(read_bytes(path), path)


def read_bytes(path: Path, limit: int = MAX_BYTES) -> bytes:
    """Returns the content of a regular file of at most `limit` bytes. Raises FormatError if it is none."""
    try:
        # Without O_NONBLOCK, opening a pipe would wait for a writer.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise FormatError(f"{path}: is no file; the run directory is damaged")
            data = file.read(limit + 1)
    except OSError as error:
        raise FormatError(f"{path}: cannot be read ({error.strerror}); the run directory is not whole") from error
    if len(data) > limit:
        raise FormatError(f"{path}: holds more than {limit} bytes; the run directory is damaged")
    return data


def parse_json(data: bytes, path: Path) -> dict[str, Any]:
    """Returns the object in the text of a JSON file. Raises FormatError if there is none; `path` is for the message."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: is no JSON ({error}); the run directory is damaged") from error
    if not isinstance(value, dict):
        raise FormatError(f"{path}: is no JSON object; the run directory is damaged")
    return value


def check_format(manifest: Mapping[str, Any], name: str, version: int, path: Path) -> None:
    """Raises FormatError unless a manifest has this format and version."""
    if manifest.get("format") != name:
        raise FormatError(f"{path}: field `format` is {manifest.get('format')!r:.60}, not {name!r}; check the path")
    found = manifest.get("version")
    if found != version or isinstance(found, bool):
        code = manifest.get("code")
        writer = f" {code['version']!s:.20}" if isinstance(code, dict) and "version" in code else ""
        raise FormatError(
            f"{path}: field `version` is {found!r:.20}, this program reads {version}; "
            f"use the version{writer} of mallocmuzero that wrote it"
        )


def is_inside(name: Any) -> bool:
    """Returns whether a file's name from a manifest is a plain relative path that stays in the manifest's folder."""
    if not isinstance(name, str) or not name or len(name) > 1000 or "\0" in name:
        return False
    if any("\ud800" <= letter <= "\udfff" for letter in name):  # A lone surrogate is half a character.
        return False
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and bool(path.parts)
