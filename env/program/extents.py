"""Tells which bytes of fast memory residencies take."""

import numpy as np
from numpy.typing import NDArray

from .mapping import RESIDENCY_FIELDS
from .program import Program

_BUFFER, _HIGH = RESIDENCY_FIELDS.index("buffer"), RESIDENCY_FIELDS.index("high")


def extents(program: Program, residencies: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns residencies with `low..high` as the bytes that they take from their offset on.

    These are the bytes of the buffer that they hold, unless it is split (`Program.split`): then each core holds a part.

    Args:
      program: the program.
      residencies: `[R, 6]` as in a mapping; columns behind these are kept.
    """
    if program.split is None:
        return residencies
    part = program.split[residencies[:, _BUFFER]]
    taken = residencies.copy()
    taken[:, _HIGH] = np.where(part > 0, part, residencies[:, _HIGH])
    return taken
