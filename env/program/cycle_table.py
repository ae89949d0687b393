"""What the code generator says an instruction costs, as a table of what was seen. The file format: docs/formats.md."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class CycleTable:
    """Cycles of instructions under the placements that compilations chose for their accesses.

    Shapes: `T` instructions, `R` rows, `P` pairs. A row is a class of instructions: identical computations with alike
    access lists. A placement is an integer whose bit `k` says that the instruction's access `k` (counted from its
    first, in program order) is served from fast memory; instructions may have more than 64 accesses. How unseen pairs
    are completed: `cycles.py`.

    Attributes:
      row: `[T]` row of the instruction, or -1 where the code generator gives it no cycles (it then costs nothing).
      pair_row: `[P]` row of each pair seen, ascending.
      pair_fast: `P` placements, ascending within a row.
      pair_cycles: `[P]` cycles.
      compilations: how many compilations filled the table.
      ambiguous: how many pairs were seen with more than one value; the smallest is kept.
    """

    row: NDArray[np.int32]
    pair_row: NDArray[np.int32]
    pair_fast: tuple[int, ...]
    pair_cycles: NDArray[np.int64]
    compilations: int = 0
    ambiguous: int = 0

    @property
    def num_rows(self) -> int:
        """`R`."""
        return int(max(self.row.max(initial=-1), self.pair_row.max(initial=-1))) + 1

    @property
    def num_pairs(self) -> int:
        """`P`."""
        return len(self.pair_fast)

    @cached_property
    def row_start(self) -> NDArray[np.int64]:
        """`[R + 1]` the pairs of row `r` are `row_start[r]:row_start[r + 1]`."""
        return np.searchsorted(self.pair_row, np.arange(self.num_rows + 1))


def build_table(
    row: NDArray[np.int32], pairs: dict[tuple[int, int], int], compilations: int = 0, ambiguous: int = 0
) -> CycleTable:
    """Returns the table of `{(row, placement): cycles}`."""
    ordered = sorted(pairs)
    return CycleTable(
        row=np.asarray(row, np.int32),
        pair_row=np.array([key[0] for key in ordered], np.int32),
        pair_fast=tuple(key[1] for key in ordered),
        pair_cycles=np.array([pairs[key] for key in ordered], np.int64),
        compilations=compilations,
        ambiguous=ambiguous,
    )


def table_dict(table: CycleTable) -> dict[str, Any]:
    """Returns the table as the plain JSON values of a program file's `cycles` section."""
    return {
        "row": table.row.tolist(),
        "pairs": {
            "row": table.pair_row.tolist(),
            "fast": [f"{fast:x}" for fast in table.pair_fast],
            "cycles": table.pair_cycles.tolist(),
        },
        "compilations": table.compilations,
        "ambiguous": table.ambiguous,
    }
