"""Checks, before any work, that a file can be written."""

import os
import tempfile
from pathlib import Path

from ..errors import UserError


def check_destination(path: str | os.PathLike[str] | None, option: str = "") -> None:
    """Checks that a file can be written at `path`, by making a temporary file beside it. Nothing is left behind.

    Args:
      path: the file; None for none, which passes.
      option: the option that gave it, for messages; empty for none.

    Raises:
      UserError: the path is a folder, its folder does not exist, or nothing can be written there.
    """
    if path is None:
        return
    path, said = Path(path), f"{option} {path}".strip()
    if path.is_dir():
        raise UserError(f"{said}: is a folder; give a file in it, such as {path / 'NAME'}")
    if not path.parent.exists():
        raise UserError(f"{said}: there is no folder {path.parent}; make it first")
    if path.exists() and not path.is_file():
        return  # a device, such as /dev/stdout
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise UserError(f"{said}: cannot be written ({error.strerror or error}); choose another place") from error


def check_new_folder(path: str | os.PathLike[str] | None, option: str = "") -> None:
    """Checks that `path` can be a new folder: it is not there yet, or empty, and its own folder takes files.

    Raises:
      UserError: it is a file, holds something, or cannot be made.
    """
    if path is None:
        return
    path, said = Path(path), f"{option} {path}".strip()
    if path.is_dir():
        if any(path.iterdir()):
            raise UserError(f"{said}: is not empty; give a new folder")
        check_destination(path / "file", option)
        return
    if path.exists():
        raise UserError(f"{said}: is a file; give a new folder")
    check_destination(path, option)
