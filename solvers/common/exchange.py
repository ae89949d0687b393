"""Exchanges finds between processes that search for the same thing."""

import contextlib
import io
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Exchange:
    """A folder to which each of several processes writes its best find, whole, and from which it reads the others'.

    A find is a set of arrays. No process waits for another: one that has written nothing yet is left out.
    """

    def __init__(self, folder: Path, number: int, workers: int) -> None:
        """Joins as process `number` of `workers`."""
        self._folder, self._number = folder, number
        self._others = [other for other in range(workers) if other != number]
        self._offered_s = np.inf

    def turns(self) -> list[bool]:
        """Returns, for as many pieces of work as there are processes, whether each is this process's."""
        return [number == self._number for number in range(1 + len(self._others))]

    def offer(self, seconds: float, **find: NDArray[Any]) -> None:
        """Shows the others a find of `seconds` judged seconds, if it is better than all that this process has shown."""
        if not seconds < self._offered_s:
            return
        content = io.BytesIO()
        np.savez(content, seconds=seconds, **find)
        unfinished = self._folder / f"unfinished-{self._number}"
        unfinished.write_bytes(content.getvalue())
        os.replace(unfinished, self._file(self._number))
        self._offered_s = seconds

    def finds(self) -> list[tuple[float, dict[str, NDArray[Any]]]]:
        """Returns the best find of each other process with its judged seconds, the best first."""
        found: list[tuple[float, dict[str, NDArray[Any]]]] = []
        for other in self._others:
            with contextlib.suppress(FileNotFoundError), np.load(self._file(other), allow_pickle=False) as shown:
                arrays = dict(shown)
                found.append((float(arrays.pop("seconds")), arrays))
        return sorted(found, key=lambda find: find[0])

    def _file(self, number: int) -> Path:
        return self._folder / f"shown-{number}.npz"
