"""Folders for what can be made again, and where compiled code is kept."""

import hashlib
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

_COMPILED_FROM = ("env", "solvers")
# Dots, module, names; the parser of Python would take most of a second for all files.
_IMPORT = re.compile(r"^\s*from\s+(\.+)([\w.]*)\s+import\s+(\([^)]*\)|[^\n]*)", re.MULTILINE)
_NUMBA = re.compile(r"^\s*(from|import) numba\b", re.MULTILINE)
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
    mine = folder / source_digest(Path(__file__).parents[2])
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
    """Returns a digest of all sources that compiled code may come from: modules that import Numba, and all that they
    import from this package, as constants are compiled in. Others may change without anything being compiled anew."""
    sources = {
        path: path.read_text(encoding="utf-8")
        for room in _COMPILED_FROM
        for path in sorted((package / room).rglob("*.py"))
    }
    reached: set[Path] = set()
    waiting = [path for path, source in sources.items() if _NUMBA.search(source)]
    while waiting:
        path = waiting.pop()
        if path not in reached:
            reached.add(path)
            waiting += [other for other in _imports(path, sources[path]) if other in sources]
    digest = hashlib.sha256(sys.version.encode())
    for path in sorted(reached):
        digest.update(str(path.relative_to(package)).encode())
        digest.update(sources[path].encode())
    return digest.hexdigest()[:16]


def _imports(path: Path, source: str) -> Iterator[Path]:
    """Yields the files that relative imports may mean, whether they are there or not."""
    for dots, module, names in _IMPORT.findall(source):
        folder = path.parents[len(dots) - 1].joinpath(*module.split(".")) if module else path.parents[len(dots) - 1]
        yield folder.with_suffix(".py")
        yield folder / "__init__.py"
        for name in re.findall(r"\w+", names):
            yield folder / f"{name}.py"
