"""TensorBoard's event files, written by the calling thread.

tensorboardX's own writer has a thread that dies when the disk is full; the next call then waits for ever.
"""

import itertools
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.summary import scalar


class EventFiles:
    """Writes figures to event files in a folder; begins a new file after an error."""

    def __init__(self, folder: Path, step: int | None = None) -> None:
        """Begins a file. If `step` is given, TensorBoard drops figures of earlier files from that step on.

        Raises:
          OSError: the file cannot be written.
        """
        self._folder = folder
        self._purge = step
        self._numbers = itertools.count()
        self._writer: EventsWriter | None = None
        self._open()

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Writes figures of the learner's step `step`. Raises OSError if the disk refuses them."""
        writer = self._writer or self._open()
        now = time.time()
        try:
            for name, value in values.items():
                writer.write_event(Event(wall_time=now, step=step, summary=scalar(name, value)))
            writer.flush()
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Closes the file. Figures that the disk refuses are lost."""
        writer, self._writer = self._writer, None
        if writer is not None:
            with suppress(OSError):
                writer.close()

    def _open(self) -> EventsWriter:
        self._folder.mkdir(parents=True, exist_ok=True)
        # tensorboardX names files by the second; the suffix keeps names apart.
        writer = EventsWriter(str(self._folder / "events"), f".{os.getpid()}.{next(self._numbers)}")
        if self._purge is not None:
            writer.write_event(Event(step=self._purge, file_version="brain.Event:2"))
            writer.write_event(Event(step=self._purge, session_log=SessionLog(status=SessionLog.START)))
        writer.flush()
        self._writer, self._purge = writer, None
        return writer
