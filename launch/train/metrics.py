"""Figures of a run: JSON lines for programs, TensorBoard for people, under the same names."""

import contextlib
import errno
import hashlib
import json
import math
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...env.errors import UserError
from .tensorboard import EventFiles

_CHUNK = 2**20


class MetricWriter:
    """Appends to a metric file and to TensorBoard's event files.

    A line is one JSON object: `time` (seconds since 1970), `minutes` trained, `step` (learner updates), and figures by
    name. Figures that are not finite are null.
    """

    def __init__(self, file: Path, tensorboard: Path, offset: int | None = None, step: int | None = None) -> None:
        """Opens the files.

        Args:
          file: the metric file.
          tensorboard: folder of the event files.
          offset: bytes of the file to keep, on resuming: what came after the checkpoint will be written again.
          step: the step resumed from, or None.

        Raises:
          UserError: a file cannot be written.
        """
        self._path = file
        try:
            # Unbuffered: what the disk has not taken shall not come later, in the middle of something else.
            self._file = file.open("ab", buffering=0)
            if offset is not None and offset < self._file.tell():
                self._file.truncate(offset)
            self._hash = hashlib.sha256()
            with file.open("rb") as written:
                left = self.offset  # not to the end: a device may have none
                while chunk := written.read(min(_CHUNK, left)):
                    self._hash.update(chunk)
                    left -= len(chunk)
            self._tensorboard = EventFiles(tensorboard, step)
        except OSError as error:
            raise _cannot_write(error, file) from error

    @property
    def offset(self) -> int:
        """Bytes written so far."""
        return os.fstat(self._file.fileno()).st_size

    @property
    def sha256(self) -> str:
        """The hash of what has been written so far."""
        return self._hash.hexdigest()

    def write(self, step: int, seconds: float, values: Mapping[str, float]) -> None:
        """Writes figures: a whole line, or nothing.

        Args:
          step: learner updates so far.
          seconds: seconds trained so far.
          values: by name.

        Raises:
          UserError: the disk is full.
        """
        line: dict[str, Any] = {"time": round(time.time(), 3), "minutes": round(seconds / 60, 4), "step": step}
        for name, value in values.items():
            line[name] = value if math.isfinite(value) else None
        try:
            self._append(json.dumps(line, allow_nan=False).encode() + b"\n")
            self._tensorboard.write(step, values)
        except OSError as error:
            raise _cannot_write(error, self._path) from error

    def close(self) -> None:
        """Closes the files."""
        self._tensorboard.close()
        self._file.close()

    def _append(self, data: bytes) -> None:
        before = self.offset
        try:
            if self._file.write(data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            with contextlib.suppress(OSError):  # of a device; the first error says more
                self._file.truncate(before)
            raise
        self._hash.update(data)


def _cannot_write(error: OSError, path: Path) -> UserError:
    return UserError(f"{error.filename or path}: cannot be written ({error.strerror or error}); free space or rights")
