"""Compiles the kernels that a command needs before its clock starts, in two processes where there are two cores.

All processes that compile for the same folder take turns by locks: the one that holds the lock of a kernel compiles it
and keeps it on disk; the others go on to the next kernel and load that one later. The helper begins at the end of the
list. If a process dies, its locks are free, and another process compiles what it left.
"""

import contextlib
import fcntl
import importlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from numba.core import event

from .kernel import KERNELS, compile_kernel, is_kept

# Takes the number of kernels that are done, and of all that had to be compiled.
Report = Callable[[int, int], None]

_PACKAGE = __name__.removesuffix(".env.compiled.prepare")
_LOOK_S, _REPORT_S = 0.02, 0.1
# Seconds that this process waits, with nothing else to do, for a kernel that another one compiles.
_PATIENCE_S = 60.0
# A helper needs a second or two to start: it pays from this many kernels on.
_WORTH_HELP = 4


def kernels_of(needed: Iterable[str]) -> list[Any]:
    """Returns kernels by their names, each once: `MODULE:KERNEL,KERNEL`, or `MODULE` for all that it declares. Modules
    are named within this package.

    Raises:
      ValueError: a module declares no such kernel.
    """
    found: dict[int, Any] = {}
    for name in needed:
        module, _, wanted = name.partition(":")
        path = importlib.import_module(f"{_PACKAGE}.{module}").__name__
        declared = {each.py_func.__name__: each for each in KERNELS if each.py_func.__module__ == path}
        for each in wanted.split(",") if wanted else declared:
            if each not in declared:
                raise ValueError(f"{module} declares no kernel {each!r}")
            found[id(declared[each])] = declared[each]
    return list(found.values())


def prepare(needed: Iterable[str], report: Report | None = None, *, helped: bool | None = None) -> str | None:
    """Loads kernels, and compiles those that are not on disk; afterwards no call of them compiles anything.

    Args:
      needed: names, see `kernels_of`.
      report: called when kernels have to be compiled: before the first, and as they are done, also from another
        thread. Never where all are on disk.
      helped: whether a second process helps; None: if there are two cores and several kernels to compile.

    Returns:
      the error of a helper that failed, in one line; this process has then compiled the rest alone.
    """
    needed = list(needed)
    kernels = kernels_of(needed)
    missing = [each for each in kernels if not is_kept(each)]
    trouble = None
    if missing:
        if helped is None:
            helped = len(missing) >= _WORTH_HELP and len(os.sched_getaffinity(0)) > 1
        helper = Helper(needed) if helped else None
        with helper or contextlib.nullcontext():
            _compile(missing, report or (lambda done, total: None))
            trouble = None if helper is None else helper.trouble()
    for each in kernels:
        compile_kernel(each)
    return trouble


def _compile(kernels: Sequence[Any], report: Report) -> None:
    """Compiles kernels, or loads those that another process has compiled meanwhile."""
    waiting, idle_s = list(kernels), 0.0
    with _reporting(kernels, report):
        while waiting:
            before = len(waiting)
            for each in tuple(waiting):
                with turn(each) as mine:
                    if mine:
                        compile_kernel(each)
                        waiting.remove(each)
            if len(waiting) < before:
                idle_s = 0.0
            elif idle_s > _PATIENCE_S:
                compile_kernel(waiting.pop(0))
                idle_s = 0.0
            else:
                time.sleep(_LOOK_S)
                idle_s += _LOOK_S


@contextlib.contextmanager
def _reporting(kernels: Sequence[Any], report: Report) -> Iterator[None]:
    """Reports how many kernels are done, by whichever process, for as long as the context lasts."""
    ended = threading.Event()

    def watch() -> None:
        reported = 0
        while not ended.wait(_REPORT_S):
            done = sum(is_kept(each) for each in kernels)
            if done > reported:
                report(done, len(kernels))
                reported = done

    report(0, len(kernels))
    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    report(len(kernels), len(kernels))


@contextlib.contextmanager
def turn(kernel: Any) -> Iterator[bool]:
    """Takes a kernel's turn for as long as the context lasts; False where another process has it. Where no lock can be
    made, every process has its turn."""
    path = Path(kernel._cache.cache_path) / f"{kernel._cache._cache_file._index_name}.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("ab")
    except OSError:
        yield True
        return
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        except OSError:
            pass
        yield True


@contextlib.contextmanager
def watching(begins: Callable[[str], None]) -> Iterator[None]:
    """Calls `begins` with the name of each function that Numba begins to compile while the context lasts."""

    class Watch(event.Listener):
        def on_start(self, event: Any) -> None:
            begins(event.data["dispatcher"].py_func.__name__)

        def on_end(self, event: Any) -> None:
            """Does nothing."""

    with event.install_listener("numba:compile", Watch()):
        yield


_helpers: "set[Helper]" = set()


class Helper:
    """A second process that compiles the same kernels from the end of their list on. As a context, it ends the process
    on exit."""

    def __init__(self, needed: Sequence[str]) -> None:
        self._needed = needed
        self._process: subprocess.Popen[bytes] | None = None
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
        self._failed_to_start: str | None = None

    def __enter__(self) -> Self:
        # In a process group of its own: Ctrl-C in the terminal goes to this process, which ends the helper.
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, *self._needed],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=self._said,
                process_group=0,
            )
        except OSError as error:
            self._failed_to_start = str(error)
        _helpers.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        _helpers.discard(self)
        if self._process is not None:
            assert self._process.stdin is not None
            with contextlib.suppress(OSError):
                self._process.stdin.close()
            self._process.wait()
        self._said.close()

    def end(self) -> None:
        """Ends the process at once, if it still runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()

    def trouble(self) -> str | None:
        """Returns why the process failed, in one line; None if it did not."""
        if self._failed_to_start is not None:
            return self._failed_to_start
        status = None if self._process is None else self._process.poll()
        if not status:
            return None
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").strip().splitlines()
        return f"status {status}" + (f": {lines[-1].strip()}" if lines else "")


def end_helpers() -> None:
    """Ends all helpers of this process, from any thread."""
    for helper in tuple(_helpers):
        helper.end()


def _help(needed: Sequence[str]) -> None:
    """Compiles kernels from the end of their list on, as a helper; ends with the process that started it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def end_with_parent() -> None:
        os.read(sys.stdin.fileno(), 1)
        os._exit(0)

    threading.Thread(target=end_with_parent, daemon=True).start()
    for each in reversed(kernels_of(needed)):
        with turn(each) as mine:
            if mine and not is_kept(each):
                compile_kernel(each)


if __name__ == "__main__":
    # `python -m` runs this file beside the module that the package imports: the list of kernels must be that one's.
    importlib.import_module(__spec__.name)._help(sys.argv[1:])
