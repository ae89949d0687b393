"""The folder for files that can be made again."""

import os
from pathlib import Path

from ..errors import UserError


def cache_folder() -> Path:
    """Returns the folder for files that can be made again: `$XDG_CACHE_HOME/mallocmuzero`, by default under
    `~/.cache`.

    Raises:
      UserError: neither says where it is.
    """
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base).absolute() if base else Path.home() / ".cache") / "mallocmuzero"
    except RuntimeError as error:
        raise UserError("this user has no home folder for a cache; set XDG_CACHE_HOME to a folder") from error


def why_not_kept(error: OSError | UserError, folder: str | Path, variable: str = "XDG_CACHE_HOME") -> str:
    """Returns why nothing can be kept in a folder, and the variable that names another one."""
    if isinstance(error, UserError):
        return str(error)
    return f"{folder}: {error.strerror or error}; set {variable} to a folder that can be written"
