"""Checks, before any work, that a file can be written."""

import os
import tempfile
from pathlib import Path

from ..errors import UserError
from .atomic import replaceable


def check_destination(path: str | os.PathLike[str] | None, option: str = "") -> None:
    """Checks that a file can be written at `path`, by making a temporary file beside it. Nothing is left behind.

    A link is followed. Of a device or a pipe only the permissions are looked at.

    Args:
      path: the file; None for none, which passes.
      option: the option that gave it, for messages; empty for none.

    Raises:
      UserError: the path is a folder, its folder does not exist, or nothing can be written there.
    """
    if path is None:
        return
    path, said = Path(path), f"{option} {path}".strip()
    try:
        _try_to_write(path, said)
    except OSError as error:
        raise UserError(f"{said}: cannot be written ({error.strerror or error}); choose another place") from error


def _try_to_write(path: Path, said: str) -> None:
    """Does the work of `check_destination`; also raises OSError if nothing can be written."""
    if path.is_dir():
        raise UserError(f"{said}: is a folder; give a file in it, such as {path / 'NAME'}")
    place = replaceable(path)
    if place is None:
        if path.is_socket() or not os.access(path, os.W_OK):
            raise UserError(f"{said}: is no file, and takes no data; choose another place")
        return
    if not place.parent.exists():
        raise UserError(f"{said}: there is no folder {place.parent}; make it first")
    with tempfile.TemporaryFile(dir=place.parent):
        pass


def make_folder(folder: Path) -> None:
    """Makes a folder, unless it is there, and in it a file that is gone at once. Raises OSError if either fails."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass


def check_new_folder(path: str | os.PathLike[str] | None, option: str = "") -> None:
    """Checks that `path` can be a new folder: it is not there yet, or empty, and its own folder takes files.

    Raises:
      UserError: it is a file, holds something, or cannot be made.
    """
    if path is None:
        return
    path, said = Path(path), f"{option} {path}".strip()
    try:
        if path.is_dir():
            if any(path.iterdir()):
                raise UserError(f"{said}: is not empty; give a new folder")
            path = path / "file"
        elif path.exists():
            raise UserError(f"{said}: is a file; give a new folder")
    except OSError as error:
        raise UserError(f"{said}: cannot be read ({error.strerror or error}); choose another place") from error
    check_destination(path, option)
