"""The options at a decision: the legal moves, and how the game would carry out the one that needs free memory.

`legality.legal_moves` fills a record of options and only reads the state; `play.play` carries out a move from it. So a
question about a move changes nothing, and the asker keeps the answer.
"""

from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from ..compiled.struct import new_record
from .moves import NUM_MOVES


class Options(Protocol):
    """A record of options, passed by reference to compiled code.

    Attributes:
      legal: `[3]` 1 for a legal move.
      start: the planned prefetch is issued right after this instruction.
      offset: where the planned move places the buffer, in bytes; -1 if no move places it.
      cross_offset: where a cross-program prefetch would place it; -1 if that is not possible.
      stall_s: seconds that the planned move makes its instruction wait.
      victims: benefit lost by the residents that the planned offset overwrites, in weighted seconds saved per second.
      supply_s: idle HBM seconds found for the planned prefetch.
    """

    legal: NDArray[np.int8]
    start: int
    offset: int | np.int64
    cross_offset: int | np.int64
    stall_s: float
    victims: float
    supply_s: float

    def __getitem__(self, field: str) -> Any:
        """Returns a field, outside compiled code."""

    def copy(self) -> "Options":
        """Returns an independent copy."""


OPTIONS = np.dtype(
    [
        ("legal", np.int8, (NUM_MOVES,)),
        ("start", np.int64),
        ("offset", np.int64),
        ("cross_offset", np.int64),
        ("stall_s", np.float64),
        ("victims", np.float64),
        ("supply_s", np.float64),
    ],
    align=True,
)
# The offset that a move asks for when the game is to choose.
ANY_OFFSET = -1


def new_options() -> Options:
    """Returns an empty record of options."""
    return cast(Options, new_record(OPTIONS))
