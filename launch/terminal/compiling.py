"""Compilation before a command's clock starts: a progress bar, and an immediate end on Ctrl-C."""

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self

from .mode import is_command, is_live, say
from .stop import EndAtOnce

if TYPE_CHECKING:
    from rich.progress import Progress

_TEXT = "compiling, once on this machine"


class Compiling:
    """The time in which a command compiles. A context: Ctrl-C and SIGTERM end a command at once, with one line, since
    nothing has been written yet. If this process is not a command, Ctrl-C raises as usual.

    If all code is on disk, nothing is shown. Otherwise standard error shows a bar in a terminal, or else a line at the
    beginning and one at the end.
    """

    def __init__(self) -> None:
        self._guard = EndAtOnce("nothing has been written", self._before_end)
        self._bar: Progress | None = None
        self._begun: float | None = None

    def __enter__(self) -> Self:
        if is_command():
            self._guard.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hide()
        if self._begun is not None and error is None and not sys.stderr.isatty():
            say(f"compiled in {time.monotonic() - self._begun:.0f} s")
        self._guard.__exit__(kind, error, trace)

    def kernels(self, needed: Iterable[str]) -> None:
        """Compiles or loads kernels, named as in `prepare`."""
        from ...env.compiled.prepare import prepare

        trouble = prepare(needed, self._report)
        if trouble is not None:
            print(f"the second compiling process failed, the first has done its work: {trouble}", file=sys.stderr)

    @contextmanager
    def rest(self) -> Iterator[None]:
        """Shows functions that are compiled because the caller runs code within this context."""
        from ...env.compiled.prepare import watching

        with watching(lambda name: self._show(f"{_TEXT}: {name}", None, None)):
            yield

    @contextmanager
    def networks(self, what: str) -> Iterator[None]:
        """Shows in a terminal that JAX compiles, which it does in every process."""
        if is_live():
            self._update(f"compiling {what}", None, None)
        try:
            yield
        finally:
            self._hide()

    def _report(self, done: int, total: int) -> None:
        self._show(f"{_TEXT}: {done} of {total}", done, total)

    def _show(self, text: str, done: int | None, total: int | None) -> None:
        """Shows that something is compiled and kept: the bar, or outside a terminal one line, the first time."""
        if is_live():
            self._update(text, done, total)
        elif self._begun is None:
            kernels = "" if total is None else f": {total} kernels"
            say(f"{_TEXT}{kernels}")
        if self._begun is None:
            self._begun = time.monotonic()

    def _update(self, text: str, done: int | None, total: int | None) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        from .console import stderr_console

        if self._bar is None:
            self._bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TimeElapsedColumn(),
                console=stderr_console(),
                transient=True,
            )
            self._bar.add_task(text)
            self._bar.start()
        self._bar.update(self._bar.task_ids[0], description=text, completed=done or 0, total=total)

    def _hide(self) -> None:
        bar, self._bar = self._bar, None
        if bar is not None:
            bar.stop()

    def _before_end(self) -> None:
        prepare = sys.modules.get(f"{__package__.removesuffix('.launch.terminal')}.env.compiled.prepare")
        if prepare is not None:
            prepare.end_helpers()
        self._hide()


def compile_kernels(needed: Iterable[str]) -> None:
    """Compiles or loads kernels, where a command compiles nothing else (see `Compiling`)."""
    with Compiling() as compiling:
        compiling.kernels(needed)
