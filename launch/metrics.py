"""Figures of a run: JSON lines for programs, TensorBoard for people, under the same names."""

import json
import math
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from tensorboardX import SummaryWriter

from ..env.errors import UserError


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
            self._file: IO[bytes] = file.open("ab")
            if offset is not None and offset < self._file.tell():
                self._file.truncate(offset)
            self._tensorboard = SummaryWriter(str(tensorboard), purge_step=step, flush_secs=10)
        except OSError as error:
            raise _cannot_write(error, file) from error

    @property
    def offset(self) -> int:
        """Bytes written so far."""
        return os.fstat(self._file.fileno()).st_size

    def write(self, step: int, seconds: float, values: Mapping[str, float]) -> None:
        """Writes figures.

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
            self._file.write(json.dumps(line, allow_nan=False).encode() + b"\n")
            self._file.flush()
            for name, value in values.items():
                self._tensorboard.add_scalar(name, value, step)
        except OSError as error:
            raise _cannot_write(error, self._path) from error

    def close(self) -> None:
        """Closes the files."""
        try:
            self._tensorboard.close()
            self._file.close()
        except OSError as error:
            raise _cannot_write(error, self._path) from error


def _cannot_write(error: OSError, path: Path) -> UserError:
    return UserError(f"{error.filename or path}: cannot be written ({error.strerror or error}); free space or rights")
