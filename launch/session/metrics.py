"""Writes the figures of a run: JSON lines for programs, TensorBoard's event files for people."""

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
    """Appends figures to a metric file and to TensorBoard's event files, under the same names.

    A line is a JSON object: `time` (seconds since 1970), `minutes` trained, `step` (learner updates), and figures by
    name. Figures that are not finite are null.
    """

    def __init__(self, file: Path, tensorboard: Path, offset: int | None = None, step: int | None = None) -> None:
        """Opens the files.

        Args:
          file: the metric file.
          tensorboard: folder of the event files.
          offset: on resuming, bytes of the file to keep; lines after the checkpoint will be written again.
          step: on resuming, the step of the checkpoint.

        Raises:
          UserError: a file cannot be written.
        """
        self._path = file
        try:
            # Unbuffered: otherwise text that a full disk refused would be written later, in the middle of a line.
            self._file = file.open("ab", buffering=0)
            if offset is not None and offset < self._file.tell():
                self._file.truncate(offset)
            self._hash = hashlib.sha256()
            with file.open("rb") as written:
                left = self.offset  # Not to the end of the file: a device may have none.
                while chunk := written.read(min(_CHUNK, left)):
                    self._hash.update(chunk)
                    left -= len(chunk)
            self._tensorboard = EventFiles(tensorboard, step)
        except OSError as error:
            raise _cannot_write(error, file) from error

    @property
    def offset(self) -> int:
        """The size of the metric file in bytes."""
        return os.fstat(self._file.fileno()).st_size

    @property
    def sha256(self) -> str:
        """The SHA-256 of the metric file."""
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
            with contextlib.suppress(OSError):  # A device cannot be truncated; the first error says more.
                self._file.truncate(before)
            raise
        self._hash.update(data)


def _cannot_write(error: OSError, path: Path) -> UserError:
    return UserError(f"{error.filename or path}: cannot be written ({error.strerror or error}); free space or rights")
