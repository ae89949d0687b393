"""The rows of the in-process replay; a row is stored once, however many segments share it."""

import numpy as np

from ..segment import SegmentSpec

ABSORBING = 0


class RowStore:
    """A pool of rows in NumPy arrays with a count of users per row.

    Row 0 is the absorbing row and is never freed. The pool begins with `rows` rows, which take memory only once they
    are written; it doubles if writers that abandon their episodes need more.

    Attributes:
      spec: sizes of a row.
      columns: field name -> `[rows, ...]`.
      uses: `[rows]` int32, count of the segments and writers that hold each row.
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
        """Rows that are held by a segment or a writer, without the absorbing row."""
        return self._fresh - 1 - len(self._free)

    def add(self, row: dict[str, np.ndarray]) -> int:
        """Stores a row with one user; returns its number."""
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
        """Adds a user to each row. Numbers differ, apart from the absorbing row, whose users are not counted."""
        self.uses[numbers[numbers != ABSORBING]] += 1

    def release(self, numbers: np.ndarray) -> None:
        """Removes a user from each row; rows without users are free for others."""
        real = numbers[numbers != ABSORBING]
        self.uses[real] -= 1
        self._free.extend(real[self.uses[real] == 0].tolist())

    def gather(self, numbers: np.ndarray) -> dict[str, np.ndarray]:
        """Returns copies of the rows: field name -> `[*numbers.shape, ...]`."""
        return {name: column[numbers] for name, column in self.columns.items()}

    def state(self) -> dict[str, np.ndarray]:
        """Returns the arrays that `load` needs."""
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
