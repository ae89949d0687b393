"""Counts live bytes: what buffers take in fast memory between their first and last access."""

import numpy as np
from numpy.typing import NDArray

from .program import Program


def live_bytes(program: Program, chosen: NDArray[np.bool_] | None = None) -> NDArray[np.float64]:
    """Returns `[T]` bytes of fast memory that buffers take between their first and last access.

    Args:
      program: the program.
      chosen: `[N]` the buffers that count; None: all.
    """
    first = np.full(program.num_buffers, program.num_instructions)
    last = np.full(program.num_buffers, -1)
    np.minimum.at(first, program.access_buffer, program.access_instruction)
    np.maximum.at(last, program.access_buffer, program.access_instruction)
    counted = last >= 0 if chosen is None else (last >= 0) & chosen
    change = np.zeros(program.num_instructions + 1)
    np.add.at(change, first[counted], program.fast_size[counted])
    np.add.at(change, last[counted] + 1, -program.fast_size[counted])
    return np.cumsum(change)[:-1]


def live_pressure(program: Program) -> float:
    """Returns the peak of the live bytes over the bytes of fast memory."""
    return float(live_bytes(program).max(initial=0.0)) / program.target.fast_bytes
