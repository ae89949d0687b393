"""The folder for files that can be made again."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """Returns the folder for files that can be made again: `$XDG_CACHE_HOME/mallocmuzero`, by default under
    `~/.cache`."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "mallocmuzero"
