"""The writer of segments to a Reverb server."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ..config import ReplayConfig
from ..interface import ReplayTimeout
from ..segment import SegmentClock, SegmentSpec, Step
from .lazy_import import import_reverb
from .table import TABLE


class ReverbWriter:
    """A `SegmentWriter` over one `TrajectoryWriter`; `ReverbReplay.writer` makes it.

    A step is sent once, in compressed chunks that overlapping segments share. Each writer has its own stream and thread
    inside Reverb.

    Args:
      client: a `reverb.Client`.
      config: settings.
      spec: sizes of steps and segments.
      blocked: called with the seconds of every wait.
    """

    def __init__(self, client: Any, config: ReplayConfig, spec: SegmentSpec, blocked: Callable[[float], None]) -> None:
        self._config = config
        self._spec = spec
        self._blocked = blocked
        self._clock = SegmentClock(spec)
        self._absorbing = spec.absorbing
        self._deadline_exceeded = import_reverb().errors.DeadlineExceededError
        self._writer = client.trajectory_writer(num_keep_alive_refs=spec.length)
        self._closed = False
        # Upper bound of the segments that the server has not confirmed yet.
        self._in_flight = 0

    def append(self, step: Step) -> None:
        """See `SegmentWriter.append`."""
        self._check_not_closed()
        self._clock.check_open()
        row = self._spec.row(step)
        if self._in_flight >= self._config.max_in_flight:
            self._wait(self._config.max_in_flight // 2, self._config.insert_timeout_s)
        self._push(row, step.discount)

    def end_episode(self, cut: bool = False) -> None:
        """See `SegmentWriter.end_episode`."""
        self._check_not_closed()
        for _ in range(0 if cut else self._clock.padding()):
            self._push(self._absorbing, 0.0)
        # Reverb's own end_episode would wait for the server. It is not needed: a segment is always the last S rows, and
        # by the clock no segment reaches back into an earlier episode.
        self._clock.reset()

    def flush(self, timeout_s: float) -> None:
        """See `SegmentWriter.flush`."""
        self._check_not_closed()
        self._wait(0, timeout_s)

    def close(self) -> None:
        """See `SegmentWriter.close`."""
        if not self._closed:
            self._closed = True
            self._writer.close()

    def _push(self, row: dict[str, np.ndarray], discount: float) -> None:
        self._writer.append(row)
        if self._clock.advance(discount):
            history = self._writer.history
            segment = {name: history[name][-self._spec.length :] for name in row}
            self._writer.create_item(TABLE, self._config.initial_priority, segment)
            self._in_flight += 1

    def _wait(self, allowed: int, timeout_s: float) -> None:
        """Waits until at most `allowed` segments are unconfirmed."""
        start = time.monotonic()
        try:
            # A negative time-out would be none.
            self._writer.flush(block_until_num_items=allowed, timeout_ms=max(1, round(timeout_s * 1000)))
        except self._deadline_exceeded as error:
            raise ReplayTimeout(
                f"up to {self._in_flight} segments still wait after {timeout_s:g} s: the rate limiter holds them, or "
                "the server is gone (stats() tells)"
            ) from error
        finally:
            self._blocked(time.monotonic() - start)
        self._in_flight = allowed

    def _check_not_closed(self) -> None:
        if self._closed:
            raise ValueError("the writer is closed: ask for a new one")
