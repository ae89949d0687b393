"""Cycles that the code generator gives to instructions: a table filled by compilations, and its JSON form.

The file format: docs/formats.md. Placements that no compilation showed are completed by `physics/cycles.py`.
"""

import itertools
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .document import Document

_HEXADECIMAL = re.compile("[0-9a-f]{1,4096}")
# How placements that no compilation showed are completed: within the range seen for the row, or by the time that bytes
# take. Files of earlier captures are judged as before.
WITHIN_SEEN, BY_TIME = "within seen", "by time"


@dataclass(frozen=True, eq=False)
class CycleTable:
    """Cycles of instructions under the placements that compilations chose for their accesses.

    Shapes: `T` instructions, `R` rows, `P` pairs. A row is a class of instructions: identical computations with equal
    access lists. A placement is an integer whose bit `k` is set if the instruction's access `k` (counted from its
    first, in program order) is served from fast memory; instructions may have more than 64 accesses.

    Attributes:
      row: `[T]` row of the instruction, or -1 where the code generator gives it no cycles (it then costs nothing).
      pair_row: `[P]` row of each pair seen, ascending.
      pair_fast: `P` placements, ascending within a row.
      pair_cycles: `[P]` cycles.
      compilations: number of compilations that filled the table.
      ambiguous: number of pairs seen with more than one value; the smallest is kept.
      completion: `WITHIN_SEEN` or `BY_TIME`.
      kernel_rows: rows of kernels of one's own, for which the code generator reports nothing. Under every placement
        they have the cycles of memory space assignment, which are known without a pair.
    """

    row: NDArray[np.int32]
    pair_row: NDArray[np.int32]
    pair_fast: tuple[int, ...]
    pair_cycles: NDArray[np.int64]
    compilations: int = 0
    ambiguous: int = 0
    completion: str = WITHIN_SEEN
    kernel_rows: frozenset[int] = frozenset()

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
    row: NDArray[np.int32],
    pairs: dict[tuple[int, int], int],
    compilations: int = 0,
    ambiguous: int = 0,
    completion: str = WITHIN_SEEN,
    kernel_rows: frozenset[int] = frozenset(),
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
        completion=completion,
        kernel_rows=kernel_rows,
    )


def table_fields(table: CycleTable) -> dict[str, Any]:
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
        **({} if table.completion == WITHIN_SEEN else {"completion": table.completion}),
        **({"kernel_rows": sorted(table.kernel_rows)} if table.kernel_rows else {}),
    }


def parse_table(document: Document, accesses: NDArray[np.integer[Any]]) -> CycleTable:
    """Returns the table of a program file's `cycles` section.

    Args:
      document: the section.
      accesses: `[T]` number of accesses of each instruction of the program.

    Raises:
      FormatError: a field is wrong, or the table does not fit the program.
    """
    columns = document.get("pairs", dict)
    row = document.array("row", document.get("row", list), np.int32)
    pair_row = document.column(columns, "pairs", "row", np.int32)
    fast = document.column(columns, "pairs", "fast", str)
    cycles = document.column(columns, "pairs", "cycles", np.int64)
    if len(row) != len(accesses):
        raise document.error("row", f"has {len(row)} entries where {len(accesses)} are expected")
    for name, values in (("fast", fast), ("cycles", cycles)):
        if len(values) != len(pair_row):
            raise document.error(f"pairs.{name}", f"has {len(values)} entries where {len(pair_row)} are expected")
    rows = int(row.max(initial=-1)) + 1
    bits = _accesses_of_rows(document, row, rows, accesses)
    placements = []
    for index, (of, text, value) in enumerate(zip(pair_row.tolist(), fast, cycles.tolist(), strict=True)):
        if not 0 <= of < rows or bits[of] < 0:
            raise document.error(f"pairs.row[{index}]", f"is {of}, which no instruction has")
        if not _HEXADECIMAL.fullmatch(text) or int(text, 16) >> bits[of]:
            raise document.error(f"pairs.fast[{index}]", f"is {text!r:.40}, no hexadecimal set of {bits[of]} accesses")
        if value < 0:
            raise document.error(f"pairs.cycles[{index}]", f"is {value}, outside 0..")
        placements.append(int(text, 16))
    order = list(zip(pair_row.tolist(), placements, strict=True))
    if any(first >= second for first, second in itertools.pairwise(order)):
        raise document.error("pairs.fast", "is not in order: by row, then placement, each pair once")
    missing = set(range(rows)) - set(pair_row.tolist())
    if missing:
        raise document.error("pairs.row", f"has no pair of row {min(missing)}")
    for name in ("compilations", "ambiguous"):
        if not 0 <= document.get(name, int) < 2**31:
            raise document.error(name, "is out of range")
    compilations, ambiguous = document.get("compilations", int), document.get("ambiguous", int)
    completion = document.fields.get("completion", WITHIN_SEEN)
    if completion not in (WITHIN_SEEN, BY_TIME):
        raise document.error("completion", f"is {completion!r:.40}, neither {WITHIN_SEEN!r} nor {BY_TIME!r}")
    kernel_rows = document.fields.get("kernel_rows", [])
    if not isinstance(kernel_rows, list) or not all(type(of) is int and 0 <= of < rows for of in kernel_rows):
        raise document.error("kernel_rows", f"is {kernel_rows!r:.40}, no list of rows, which are in 0..{rows - 1}")
    return CycleTable(
        row, pair_row, tuple(placements), cycles, compilations, ambiguous, completion, frozenset(kernel_rows)
    )


def _accesses_of_rows(
    document: Document, row: NDArray[np.int32], rows: int, accesses: NDArray[np.integer[Any]]
) -> list[int]:
    """Returns, per row, how many accesses its instructions have, all equally many; -1 for a row without any."""
    bits = [-1] * rows
    for t, of in enumerate(row.tolist()):
        if of < -1:
            raise document.error(f"row[{t}]", f"is {of}, outside -1..{rows - 1}")
        if of >= 0 and bits[of] not in (-1, accesses[t]):
            raise document.error(
                f"row[{t}]", f"is {of}, a row of instructions with {bits[of]} accesses, not {accesses[t]}"
            )
        if of >= 0:
            bits[of] = int(accesses[t])
    return bits
