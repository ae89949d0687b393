"""Folders for what can be made again, and where compiled code is kept."""

import hashlib
import os
import shutil
import sys
import time
from pathlib import Path

_COMPILED_FROM = ("env", "actors")
_KEPT_S = 30 * 24 * 3600.0


def cache_folder() -> Path:
    """Returns the folder for what can be made again: `$XDG_CACHE_HOME/mallocmuzero`, by default under `~/.cache`."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "mallocmuzero"


def keep_compiled_code_by_source() -> None:
    """Has Numba keep compiled code in a folder of its own for each state of the sources.

    Numba looks whether the file of a function has changed, not the files of what it calls: after an update it would go
    on with old code and silently play other rules than the Python beside it. `NUMBA_CACHE_DIR`, if set, is left alone;
    where the folder cannot be made, Numba's own choice stands.
    """
    if os.environ.get("NUMBA_CACHE_DIR"):
        return
    folder = cache_folder() / "compiled"
    mine = folder / source_digest(Path(__file__).parent.parent)
    try:
        mine.mkdir(parents=True, exist_ok=True)
        os.utime(mine)
        for other in folder.iterdir():
            if time.time() - other.stat().st_mtime > _KEPT_S:
                shutil.rmtree(other, ignore_errors=True)
    except OSError:
        return
    if not os.access(mine, os.W_OK):
        return
    os.environ["NUMBA_CACHE_DIR"] = str(mine)
    if "numba" in sys.modules:
        sys.modules["numba"].config.CACHE_DIR = str(mine)


def source_digest(package: Path) -> str:
    """Returns a digest of all sources that compiled code may come from."""
    digest = hashlib.sha256(sys.version.encode())
    for room in _COMPILED_FROM:
        for path in sorted((package / room).rglob("*.py")):
            digest.update(str(path.relative_to(package)).encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
