"""Writes files that survive a crash whole or not at all, and hashes them."""

import hashlib
import os
import tempfile
from pathlib import Path

from ..errors import UserError


def write_atomically(path: Path, data: bytes) -> None:
    """Writes `data` to `path` through a temporary file beside it, so that no reader sees a half-written file.

    Raises:
      UserError: the file cannot be written.
    """
    temporary: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            temporary = file.name
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise UserError(f"{path}: cannot be written ({error.strerror or error})") from error


def sha256_of(path: Path) -> str:
    """Returns the SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync_and_hash(path: Path) -> str:
    """Flushes a file to the disk and returns its hash."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
    return sha256_of(path)


def sync_folder(path: Path) -> None:
    """Flushes the names in a folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
