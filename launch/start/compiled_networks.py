"""Keeps on disk what JAX compiles of the networks, so that only the first run on a machine pays for it.

JAX has a cache of its own for that (`jax_compilation_cache_dir`), which leaves three things to its caller.

- It does not tell the processors of two machines apart, and machine code for one may end the other's process. Here a
  folder belongs to one processor, one version of JAX and one of Python.
- It writes into the folder that it reads from, and never again what is there: a process that is killed meanwhile would
  leave half an entry for good. Here each process writes to a folder of its own, and moves what is whole. The name of
  an entry ends with its size, so that one which lost its end with the machine's power is known.
- From 0.9 on it refuses, with lines of errors, its own entries on some processors (jax-ml/jax, issue 38445). Those
  versions keep nothing here.
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

from ...env.storage.cache import cache_folder

# Of JAX: the first version that may refuse its own entries.
_REFUSES = (0, 9)
_KEPT_S = 30 * 24 * 3600.0
_ENTRY, _READ, _UNFINISHED = "-cache", "-atime", "unfinished-"
_FOLDER, _ENABLED = "jax_compilation_cache_dir", "jax_enable_compilation_cache"
_SETTINGS = {
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": 0,
}
_keeping = False


def _version(text: str) -> tuple[int, int]:
    major, minor, *_ = text.split(".")
    return int(major), int(minor)


# Whether this version of JAX takes back what it has written.
KEEPS = _version(jax.__version__) < _REFUSES


@contextlib.contextmanager
def keeping_networks() -> Iterator[None]:
    """Loads what JAX compiles while the context lasts, where it has been compiled before, and keeps what is new.

    Nothing changes where the user has named a folder of JAX's own, where a context lasts already, where the version of
    JAX refuses its entries, and where no folder can be made.
    """
    global _keeping
    given = getattr(jax.config, _FOLDER) or not getattr(jax.config, _ENABLED)
    if given or _keeping or not KEEPS:
        yield
        return
    try:
        folder = networks_folder()
        mine = _open(folder)
    except OSError:
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


def networks_folder() -> Path:
    """Returns the folder for this processor and these versions."""
    features = binding.get_host_cpu_features().flatten()
    made_by = (sys.version, jax.__version__, jaxlib.version.__version__, binding.get_host_cpu_name(), features)
    return cache_folder() / "networks" / hashlib.sha256("\n".join(made_by).encode()).hexdigest()[:16]


def _open(folder: Path) -> Path:
    """Returns a new folder with links to all entries, after those go that nobody has read for long."""
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
    """Changes settings of JAX, which looks at the folder once, unless it is told to look again."""
    for name, value in settings.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()
