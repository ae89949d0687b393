"""Writes files that survive a crash whole or not at all, and hashes them."""

import hashlib
import os
import stat
import tempfile
from pathlib import Path

from ..errors import UserError

# Names of temporary files begin with it. They do not hold the file's own name, which may be as long as names can be.
TEMPORARY = ".mallocmuzero-"


def write_atomically(path: Path, data: bytes) -> None:
    """Writes `data` to `path` through a temporary file beside it, so that no reader sees a half-written file.

    A link is followed, and stays. A device or a pipe is written directly, for a file must not take its place.

    Raises:
      UserError: the file cannot be written.
    """
    temporary: str | None = None
    try:
        place = replaceable(path)
        if place is None:
            path.write_bytes(data)
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=place.parent, prefix=TEMPORARY, delete=False) as file:
            temporary = file.name
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, place)
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise UserError(f"{path}: cannot be written ({error.strerror or error})") from error


def replaceable(path: Path) -> Path | None:
    """Returns the path, links followed, at which a new file can take the place of the one that `path` names.

    None if `path` names something else, such as a device or a pipe. No file need be there yet.

    Raises:
      OSError: nothing can be at this path: its name is too long, or it leads through a file or in a circle.
    """
    try:
        there = path.stat()
    except FileNotFoundError:
        return Path(os.path.realpath(path)) if path.is_symlink() else path
    if not stat.S_ISREG(there.st_mode):
        return None
    if not path.is_symlink():
        return path
    real = Path(os.path.realpath(path))
    # The links of /dev/stdout may lead to a file that has no name any more.
    return real if real.exists() and real.samefile(path) else None


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
