"""The cache of compiled code: one folder for each state of the sources that it is compiled from."""

import atexit
import contextlib
import hashlib
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from ..errors import UserError
from ..storage.cache import cache_folder, why_not_kept
from ..storage.destination import make_folder

# The variable with which Numba's users choose the folder.
_CHOSEN = "NUMBA_CACHE_DIR"
_COMPILED_FROM = ("env", "solvers", "actors")
# Dots, module, names. Python's own parser would take most of a second for all files.
_IMPORT = re.compile(r"^\s*from\s+(\.+)([\w.]*)\s+import\s+(\([^)]*\)|[^\n]*)", re.MULTILINE)
_NUMBA = re.compile(r"^\s*(from|import) (numba|[.\w]*\b(jit|kernel))\b", re.MULTILINE)
# Docstrings, comments and blank lines.
_PROSE = re.compile(r'^[ \t]*""".*?"""[ \t]*\n|^[ \t]*(#[^\n]*)?\n|  [ \t]*#[^\n]*$', re.MULTILINE | re.DOTALL)
# The ending of files that hold the digest of sources of known sizes and times.
_STAMP = ".digest"
_KEPT_S = 30 * 24 * 3600.0


def keep_compiled_code_by_source() -> None:
    """Makes Numba keep compiled code in a folder of its own for each state of the sources.

    Numba notices a change in the file of a function, not in the files of its callees: after an update it would silently
    play by old rules. `NUMBA_CACHE_DIR`, if set, is the user's choice. A folder that cannot be written is replaced by
    a temporary one, which this process shares with those that it starts: Numba would write beside our sources, or fail.

    Raises:
      UserError: there is no temporary folder either.
    """
    given = os.environ.get(_CHOSEN)
    place: str | Path = given or "the cache folder"
    try:
        if given:
            make_folder(Path(given))
            return
        place = folder = cache_folder() / "compiled"
        folder.mkdir(parents=True, exist_ok=True)
        mine = folder / _digest_by_stamp(Path(__file__).parents[2], folder)
        make_folder(mine)
        os.utime(mine)
        _remove_old(folder)
    except (OSError, UserError) as error:
        mine = _temporary_folder()
        why = why_not_kept(error, place, _CHOSEN if given else "XDG_CACHE_HOME")
        print(f"mallocmuzero: compiled code is not kept, so every command compiles anew: {why}", file=sys.stderr)
    os.environ[_CHOSEN] = str(mine)
    if "numba" in sys.modules:
        sys.modules["numba"].config.CACHE_DIR = str(mine)


def _remove_old(folder: Path) -> None:
    """Removes what nothing has used for long."""
    for other in folder.iterdir():
        with contextlib.suppress(OSError):  # another process has removed it, or its owner keeps it
            if time.time() - other.stat().st_mtime <= _KEPT_S:
                continue
            if other.is_dir():
                shutil.rmtree(other, ignore_errors=True)
            else:
                other.unlink()


def _temporary_folder() -> Path:
    """Returns a folder that is removed when this process ends. Raises UserError if none can be made."""
    try:
        folder = tempfile.mkdtemp(prefix="mallocmuzero-compiled-")
    except OSError as error:
        raise UserError(
            f"no folder for compiled code can be written, not even a temporary one ({error.strerror or error}); set "
            "XDG_CACHE_HOME or TMPDIR to one"
        ) from error
    made_by = os.getpid()

    def remove() -> None:
        if os.getpid() == made_by:  # not a fork of it
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return Path(folder)


def _digest_by_stamp(package: Path, folder: Path) -> str:
    """Returns the digest of the sources, which is kept in `folder` by their sizes and times: reading all of them takes
    most of a tenth of a second.
    """
    stamp = hashlib.sha256(sys.version.encode())
    for path in _sources(package):
        status = path.stat()
        stamp.update(f"{path} {status.st_size} {status.st_mtime_ns}\n".encode())
    kept = folder / f"{stamp.hexdigest()[:16]}{_STAMP}"
    try:
        found = kept.read_text(encoding="utf-8")
        os.utime(kept)
    except OSError:
        found = ""
    if re.fullmatch(r"[0-9a-f]{16}", found):
        return found
    digest = source_digest(package)
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = kept.with_suffix(f".{os.getpid()}")
        unfinished.write_text(digest, encoding="utf-8")
        os.replace(unfinished, kept)
    return digest


def _sources(package: Path) -> list[Path]:
    return [path for room in _COMPILED_FROM for path in sorted((package / room).rglob("*.py"))]


def source_digest(package: Path) -> str:
    """Returns a digest of the sources of compiled code: modules that import Numba, and all that they import from this
    package, since constants are compiled in. Comments, docstrings and other modules do not count."""
    sources = {path: path.read_text(encoding="utf-8") for path in _sources(package)}
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
        digest.update(_PROSE.sub("", sources[path]).encode())
    return digest.hexdigest()[:16]


def _imports(path: Path, source: str) -> Iterator[Path]:
    """Yields the files that relative imports may name, existing or not."""
    for dots, module, names in _IMPORT.findall(source):
        folder = path.parents[len(dots) - 1].joinpath(*module.split(".")) if module else path.parents[len(dots) - 1]
        yield folder.with_suffix(".py")
        yield folder / "__init__.py"
        for name in re.findall(r"\w+", names):
            yield folder / f"{name}.py"
