"""Ctrl-C and SIGTERM: the first signal stops a command cleanly, the second at once; before any work, the first does."""

import _thread
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Any, NoReturn, Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class _Interrupted:
    by_user = False


def interrupt(number: int, frame: FrameType | None) -> NoReturn:
    """Raises KeyboardInterrupt, and remembers it: a library may turn it into another error on its way."""
    _Interrupted.by_user = True
    raise KeyboardInterrupt


def was_interrupted() -> bool:
    """Returns whether this process was interrupted."""
    return _Interrupted.by_user


def forget_interrupts() -> None:
    """Forgets earlier interruptions, before a command begins."""
    _Interrupted.by_user = False


def catch_interrupts() -> None:
    """Lets Ctrl-C interrupt this process, and again if it came in a finaliser, which swallows exceptions."""
    signal.signal(signal.SIGINT, interrupt)
    default = sys.unraisablehook

    def hook(unraisable: "sys.UnraisableHookArgs") -> None:
        if isinstance(unraisable.exc_value, KeyboardInterrupt):
            _thread.interrupt_main()
        elif not was_interrupted():
            default(unraisable)

    sys.unraisablehook = hook


class StopRequest:
    """True once the user wants to stop. A context: signals are caught within it.

    Attributes:
      signal: number of the signal that has come, or None.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self._previous: dict[int, Any] = {}
        self._skips = False

    def __bool__(self) -> bool:
        return self.signal is not None

    @property
    def status(self) -> int:
        """The exit status that names the signal: 130 for Ctrl-C, 143 for SIGTERM, 0 for none."""
        return 0 if self.signal is None else 128 + self.signal

    @contextlib.contextmanager
    def skipping(self) -> Iterator[None]:
        """A context for work that may be left undone: the first signal ends it, and the code after it goes on."""
        self._skips = True
        try:
            yield
        except KeyboardInterrupt:
            if self.signal is None:
                raise
            forget_interrupts()
        finally:
            self._skips = False

    def __enter__(self) -> Self:
        self._previous = {number: signal.signal(number, self._handle) for number in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        again, self.signal = self.signal is not None, number
        if again or self._skips:
            print(file=sys.stderr)
            interrupt(number, frame)
        print("\nstopping and saving; once more stops at once", file=sys.stderr, flush=True)


class EndAtOnce:
    """A context in which Ctrl-C and SIGTERM end the process at once, with one line and no traceback.

    An exception would have to wait for a library that compiles for seconds, and could surface in the middle of it. So a
    thread receives the signal, prints the line, and ends the process without notifying the rest.
    """

    def __init__(self, why: str, before: Callable[[], None]) -> None:
        """Takes the end of the line, and what ends other processes and displays."""
        self._why, self._before = why, before
        self._previous: dict[int, Any] = {}
        self._wakeup_before = -1
        self._write = -1

    def __enter__(self) -> Self:
        if threading.current_thread() is not threading.main_thread():
            return self  # signals come to the main thread
        read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        threading.Thread(target=self._watch, args=(read,), daemon=True).start()
        self._wakeup_before = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._previous = {number: signal.signal(number, _leave_to_thread) for number in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._write < 0:
            return
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup_before, warn_on_full_buffer=False)
        os.close(self._write)
        self._write = -1

    def _watch(self, read: int) -> None:
        """Ends the process once a signal has come; returns when the context has ended."""
        while number := os.read(read, 1):
            if number[0] in _SIGNALS:
                with contextlib.suppress(Exception):
                    self._before()
                with contextlib.suppress(Exception):
                    print(f"mallocmuzero: stopped: {self._why}", file=sys.stderr, flush=True)
                os._exit(128 + number[0])
        os.close(read)


def _leave_to_thread(number: int, frame: FrameType | None) -> None:
    """Does nothing: the number has been written to the thread's pipe."""
