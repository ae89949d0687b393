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
    return _with_ends(program, residencies, program.fast_size)


def held(program: Program, taken: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns residencies with `low..high` as the bytes of the buffer that they hold, from what they take."""
    return _with_ends(program, taken, program.size)


def _with_ends(program: Program, residencies: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns residencies in which those of split buffers reach to `end[N]`."""
    if program.split is None:
        return residencies
    buffer, changed = residencies[:, _BUFFER], residencies.copy()
    changed[:, _HIGH] = np.where(program.is_split[buffer], end[buffer], residencies[:, _HIGH])
    return changed
