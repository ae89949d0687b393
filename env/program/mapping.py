"""Defines `Mapping`: the places of every buffer of a program over time, and every asynchronous copy."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

PREFETCH = 0
WRITE_BACK = 1
CROSS_PROGRAM = 2

RESIDENCY_FIELDS = ("buffer", "start", "end", "offset", "low", "high")
COPY_FIELDS = ("buffer", "direction", "start", "end", "low", "high", "source", "replaces")


@dataclass(frozen=True, eq=False, repr=False)
class Mapping:
    """A full solution for one program. Shapes: `A` accesses of the program, `R` residencies, `C` copies.

    Time is counted in instructions. A residency holds its bytes while instructions `start..end` run, both included.
    A copy is issued right after instruction `start` has run (-1: before the program) and is complete before
    instruction `end` begins (`T`: before the program ends), so it moves while `start + 1 .. end - 1` run, and a
    residency that a prefetch fills begins at the prefetch's `start + 1`.

    Attributes:
      program_sha256: `Program.sha256` of the program it maps.
      access_fast: `[A]` the access is served from fast memory.
      residencies: `[R, 6]` columns `buffer, start, end, offset, low, high`: bytes `low..high` of the buffer lie at
        `offset + low .. offset + high` of fast memory. A whole buffer has `low = 0` and `high = size`; parts stand for
        the slices of a prefetch that is cut into several copies. A buffer that is split over two cores is there as a
        whole, and takes `offset .. offset + Program.split`.
      copies: `[C, 8]` columns `buffer, direction, start, end, low, high, source, replaces`, in the order of issue.
        `source` is the buffer read (the same buffer, but for a synchronous copy instruction that the copy replaces);
        `replaces` is that instruction, or -1. Directions: `PREFETCH`, `WRITE_BACK`, and `CROSS_PROGRAM`, a prefetch
        that the previous execution of the program issued (`start = -1`): free in a steady execution, an ordinary
        prefetch at the start of a cold one; its buffer is resident again at the same offset when the program ends.
      origin: maker of the mapping: solver, seed, versions.
    """

    program_sha256: str
    access_fast: NDArray[np.bool_]
    residencies: NDArray[np.int64]
    copies: NDArray[np.int64]
    origin: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Returns one line, without the arrays."""
        near = f"{int(self.access_fast.sum()):,} of {len(self.access_fast):,} accesses from fast memory"
        return f"Mapping({near}, {len(self.residencies):,} residencies, {len(self.copies):,} copies)"
