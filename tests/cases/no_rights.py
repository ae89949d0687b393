"""A folder that this process may not enter, even if it is root's."""

import contextlib
import ctypes
from collections.abc import Iterator
from pathlib import Path

_VERSION = 0x20080522
# The capabilities that pass over the rights of files: CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH.
_PASSES_OVER = 1 << 1 | 1 << 2


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keeps this thread out of a folder while the context lasts."""
    folder.chmod(0)
    with _rights_that_count():
        yield
    folder.chmod(0o755)


@contextlib.contextmanager
def _rights_that_count() -> Iterator[None]:
    """Takes from this thread, while the context lasts, what lets root pass over the rights of files."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(_VERSION, 0)
    # Effective, permitted and inheritable capabilities, of which the first 32 and the rest.
    sets = (ctypes.c_uint32 * 6)()
    assert libc.capget(header, sets) == 0
    before, sets[0] = sets[0], sets[0] & ~_PASSES_OVER
    assert libc.capset(header, sets) == 0
    try:
        yield
    finally:
        sets[0] = before
        assert libc.capset(header, sets) == 0
