"""Ctrl-C and SIGTERM: the first signal stops a command cleanly, the second at once."""

import signal
import sys
from types import FrameType, TracebackType
from typing import Any, Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """True once the user wants to stop. A context: signals are caught within it.

    Attributes:
      signal: number of the signal that has come, or None.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self._previous: dict[int, Any] = {}

    def __bool__(self) -> bool:
        return self.signal is not None

    @property
    def status(self) -> int:
        """The exit status that names the signal: 130 for Ctrl-C, 143 for SIGTERM, 0 for none."""
        return 0 if self.signal is None else 128 + self.signal

    def __enter__(self) -> Self:
        self._previous = {number: signal.signal(number, self._handle) for number in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None:
            raise KeyboardInterrupt
        self.signal = number
        print("\nstopping and saving; once more stops at once", file=sys.stderr, flush=True)
