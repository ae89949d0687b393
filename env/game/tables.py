"""The static tables of a game: a program and a target as flat arrays for compiled code.

The fields of their records are listed in `records.py`; `build_tables.py` makes them.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compiled.struct import Rows, Struct, array, one, rows
from .records import ACCESS, BUFFER, HINTS, INSTRUCTION, LIMITS, RATES, RETURN


class Tables(Struct):
    """A program on a target. Shapes: `T` instructions, `A` accesses, `N` buffers, `H` slots of a hash table.

    Attributes:
      access: `[A]`.
      instruction: `[T + 1]`, the last for the end of the program.
      buffer: `[N]`.
      returning: `[A]` the return of what a loop holds.
      limits, rates: one record each.
      following: `[A + 1]` the first access from each one on (`A`: none) whose buffer a plan may place. Games by plan
        skip all others, which stay in HBM.
      movable: `[A + 1]` the same for every buffer that is played: no other has copies.
      cycle_keys, cycle_s: `[H]` the cycle table as an open-addressing hash table, `H` a power of two: keys (0: empty)
        and seconds. Empty without a cycle table.
    """

    access: Rows = rows(ACCESS)
    instruction: Rows = rows(INSTRUCTION)
    buffer: Rows = rows(BUFFER)
    returning: Rows = rows(RETURN)
    limits: Any = one(LIMITS)
    rates: Any = one(RATES)
    following: NDArray[np.int64] = rows(np.int64)
    movable: NDArray[np.int64] = rows(np.int64)
    cycle_keys: NDArray[np.int64] = array(np.int64, 1)
    cycle_s: NDArray[np.float64] = array(np.float64, 1)

    def hints(self) -> NDArray[np.int64]:
        """Returns `[A, 3]` the hints of a mapping to follow, columns `records.HINTS`."""
        return np.stack([self.access[name] for name in HINTS], axis=1)

    def set_hints(self, hints: NDArray[np.int64]) -> None:
        """Sets the hints `[A, 3]` of a mapping to follow."""
        for column, name in enumerate(HINTS):
            self.access[name] = hints[:, column]

    def without_trivial(self) -> "Tables":
        """Returns the same tables with trivial buffers left in HBM, which makes games twice as fast."""
        buffer = self.buffer.copy()
        buffer["played"][buffer["trivial"] == 1] = 0
        return self.replace(buffer=buffer, movable=self.following)

    def own(self) -> "Tables":
        """Returns the same tables with accesses, buffers and rates of their own, which a game may change."""
        return self.replace(access=self.access.copy(), buffer=self.buffer.copy(), rates=self.rates.copy())
