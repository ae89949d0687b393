"""Rows of the in-process replay, each kept once however many segments it is part of."""

import numpy as np

from ..segment import SegmentSpec

ABSORBING = 0


class RowStore:
    """A pool of rows in NumPy arrays with a count of users per row.

    Row 0 is the absorbing row and is never freed. The pool starts with room for `rows` rows, which take memory only
    once written, and doubles where writers that give up their episodes need more.

    Attributes:
      spec: sizes of a row.
      columns: field name -> `[rows, ...]`.
      uses: `[rows]` int32, segments and writers that hold the row.
    """

    def __init__(self, spec: SegmentSpec, rows: int) -> None:
        self.spec = spec
        self.columns = {name: np.zeros((rows, *shape), dtype) for name, (shape, dtype) in spec.fields.items()}
        self.uses = np.zeros(rows, np.int32)
        for name, value in spec.absorbing.items():
            self.columns[name][ABSORBING] = value
        self.uses[ABSORBING] = 1
        self._free: list[int] = []
        # Rows from here on have never been written.
        self._fresh = 1

    @property
    def used(self) -> int:
        """Rows that somebody holds, the absorbing row not counted."""
        return self._fresh - 1 - len(self._free)

    def add(self, row: dict[str, np.ndarray]) -> int:
        """Stores a row held by one user; returns its number."""
        if self._free:
            number = self._free.pop()
        else:
            if self._fresh == len(self.uses):
                self._grow(2 * self._fresh)
            number = self._fresh
            self._fresh += 1
        for name, value in row.items():
            self.columns[name][number] = value
        self.uses[number] = 1
        return number

    def hold(self, numbers: np.ndarray) -> None:
        """Counts one more user of each row. Rows differ, but for the absorbing row, which is not counted."""
        self.uses[numbers[numbers != ABSORBING]] += 1

    def release(self, numbers: np.ndarray) -> None:
        """Counts one user less; rows without users are free for others."""
        real = numbers[numbers != ABSORBING]
        self.uses[real] -= 1
        self._free.extend(real[self.uses[real] == 0].tolist())

    def gather(self, numbers: np.ndarray) -> dict[str, np.ndarray]:
        """Returns copies of the rows: field name -> `[*numbers.shape, ...]`."""
        return {name: column[numbers] for name, column in self.columns.items()}

    def state(self) -> dict[str, np.ndarray]:
        """Returns everything that `load` needs."""
        state = {f"column_{name}": column[: self._fresh] for name, column in self.columns.items()}
        return {**state, "uses": self.uses[: self._fresh], "free": np.array(self._free, np.int64)}

    def load(self, state: dict[str, np.ndarray]) -> None:
        """Puts back what `state` returned, in a store of the same spec."""
        self._fresh = len(state["uses"])
        if self._fresh > len(self.uses):
            self._grow(self._fresh)
        for name, column in self.columns.items():
            column[: self._fresh] = state[f"column_{name}"]
        self.uses[: self._fresh] = state["uses"]
        self._free = state["free"].tolist()

    def _grow(self, rows: int) -> None:
        for name, column in self.columns.items():
            self.columns[name] = np.concatenate(
                [column, np.zeros((rows - len(column), *column.shape[1:]), column.dtype)]
            )
        self.uses = np.concatenate([self.uses, np.zeros(rows - len(self.uses), np.int32)])
