"""Keeps JAX's compiled code of the networks on disk, so that only the first run on a machine compiles it.

JAX has its own cache for that (`jax_compilation_cache_dir`), which leaves three things to its caller.

- It does not distinguish the processors of two machines, and machine code for one may crash a process on the other.
  Here a folder belongs to one processor, one version of JAX and one of Python.
- It writes into the folder that it reads from, and never rewrites an entry: a process killed while it writes would
  leave half an entry for good. Here each process writes to its own folder, and moves whole entries. The name of an
  entry ends with its size, which exposes an entry that a power failure cut short.
- From 0.9 on it refuses its own entries on some processors, with lines of errors (jax-ml/jax, issue 38445). With those
  versions nothing is kept here.
"""

import contextlib
import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import jax
import jaxlib.version
from jax.experimental.compilation_cache import compilation_cache
from llvmlite import binding

from ...env.errors import UserError
from ...env.storage.cache import cache_folder, why_not_kept

# Of JAX: the first version that may refuse its own entries.
_REFUSES = (0, 9)
_KEPT_S = 30 * 24 * 3600.0
_ENTRY, _READ, _UNFINISHED = "-cache", "-atime", "unfinished-"
_FOLDER, _ENABLED = "jax_compilation_cache_dir", "jax_enable_compilation_cache"
_SETTINGS = {
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": 0,
}
_keeping = _told = False


def _version(text: str) -> tuple[int, int]:
    major, minor, *_ = text.split(".")
    return int(major), int(minor)


# Whether this version of JAX accepts its own entries.
KEEPS = _version(jax.__version__) < _REFUSES


@contextlib.contextmanager
def keeping_networks() -> Iterator[None]:
    """While the context lasts, loads what JAX has compiled before, and keeps what it compiles anew.

    Nothing changes if the user has named a folder for JAX's own cache, if such a context lasts already, if this version
    of JAX refuses its entries, or if no folder can be made, which standard error says once.
    """
    global _keeping
    given = getattr(jax.config, _FOLDER) or not getattr(jax.config, _ENABLED)
    if given or _keeping or not KEEPS:
        yield
        return
    try:
        folder = networks_folder()
        mine = _open(folder)
    except (OSError, UserError) as error:
        _tell(error)
        yield
        return
    before = {name: getattr(jax.config, name) for name in _SETTINGS}
    _keeping = True
    try:
        _set({**_SETTINGS, _FOLDER: str(mine)})
        yield
    finally:
        _set({**before, _FOLDER: None})
        _keeping = False
        with contextlib.suppress(OSError):
            _publish(mine, folder)
        shutil.rmtree(mine, ignore_errors=True)


def _tell(error: OSError | UserError) -> None:
    global _told
    if _told:
        return
    _told = True
    why = why_not_kept(error, getattr(error, "filename", None) or "the cache folder")
    print(f"mallocmuzero: compiled networks are not kept, so every start compiles them anew: {why}", file=sys.stderr)


def networks_folder() -> Path:
    """Returns the folder for this processor and these versions."""
    features = binding.get_host_cpu_features().flatten()
    made_by = (sys.version, jax.__version__, jaxlib.version.__version__, binding.get_host_cpu_name(), features)
    return cache_folder() / "networks" / hashlib.sha256("\n".join(made_by).encode()).hexdigest()[:16]


def _open(folder: Path) -> Path:
    """Returns a new folder with links to all entries, after removing entries that nobody has read for long."""
    folder.mkdir(parents=True, exist_ok=True)
    os.utime(folder)
    oldest = time.time() - _KEPT_S
    for other in folder.parent.iterdir():
        if other.is_dir() and other.stat().st_mtime < oldest:
            shutil.rmtree(other, ignore_errors=True)
    mine = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=folder))
    for entry in folder.iterdir():
        name, _, size = entry.name.rpartition(".")
        status = entry.stat()
        if entry.is_dir():
            if status.st_mtime < oldest:
                shutil.rmtree(entry, ignore_errors=True)
        elif status.st_mtime < oldest or str(status.st_size) != size:
            entry.unlink(missing_ok=True)
        else:
            (mine / name).symlink_to(entry)
    return mine


def _publish(mine: Path, folder: Path) -> None:
    """Moves new entries into the folder, and notes which ones were read."""
    for path in mine.iterdir():
        if path.name.endswith(_ENTRY) and not path.is_symlink():
            os.replace(path, folder / f"{path.name}.{path.stat().st_size}")
        elif path.name.endswith(_READ):
            with contextlib.suppress(FileNotFoundError):
                os.utime(mine / (path.name.removesuffix(_READ) + _ENTRY))  # of the entry that the link leads to


def _set(settings: dict[str, object]) -> None:
    """Changes settings of JAX, and resets its cache, since JAX otherwise reads the folder's setting only once."""
    for name, value in settings.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()
