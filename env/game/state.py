"""The state of a game: flat arrays that compiled code steps, all in one block of bytes.

The columns are listed in `columns.py`.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .columns import NUM_COUNTERS, NUM_SUMS, UNTOUCHED
from .tables import Tables


class State(NamedTuple):
    """All that changes while a game is played. Shapes: as `Tables`; `R` residencies and `C` copies at most."""

    access_fast: NDArray[np.int8]  # [A]
    buffer: NDArray[np.int64]  # [N, 9]
    step: NDArray[np.int64]  # [T + 1, 4]
    step_f: NDArray[np.float64]  # [T + 1, 4]
    holders: NDArray[np.int64]  # [N + 1] the buffers in fast memory, sorted by offset
    residency: NDArray[np.int64]  # [R, 5]
    copy: NDArray[np.int64]  # [C, 4]
    queue_s: NDArray[np.float64]  # [C] HBM seconds left of each write-back, first in, first out
    queue_copy: NDArray[np.int64]  # [C]
    untouched: NDArray[np.int64]  # [UNTOUCHED, 2] lower and upper ends of unused gaps, sorted by offset
    counters: NDArray[np.int64]
    sums: NDArray[np.float64]


def new_state(tables: Tables) -> State:
    """Returns a state large enough for any game on `tables`; `rules.reset` fills it."""
    accesses, buffers, steps = len(tables.access), len(tables.buffer), len(tables.instruction)
    return State(
        access_fast=np.zeros(accesses, np.int8),
        buffer=np.zeros((buffers, 9), np.int64),
        step=np.zeros((steps, 4), np.int64),
        step_f=np.zeros((steps, 4)),
        holders=np.zeros(buffers + 1, np.int64),
        # Each access begins at most one residency and one copy.
        residency=np.zeros((accesses + 1, 5), np.int64),
        copy=np.zeros((accesses + 1, 4), np.int64),
        queue_s=np.zeros(accesses + 1),
        queue_copy=np.zeros(accesses + 1, np.int64),
        untouched=np.zeros((UNTOUCHED, 2), np.int64),
        counters=np.zeros(NUM_COUNTERS, np.int64),
        sums=np.zeros(NUM_SUMS),
    )


def pooled_state(tables: Tables) -> tuple[NDArray[np.uint8], State]:
    """Returns a state and the block of bytes that holds all its arrays: one copy of the block saves or restores it."""
    template: list[NDArray[Any]] = list(new_state(tables))
    places, end = [], 0
    for array in template:
        places.append(end)
        end += -(-array.nbytes // 64) * 64
    block = np.zeros(end, np.uint8)
    arrays = (
        block[place : place + array.nbytes].view(array.dtype).reshape(array.shape)
        for place, array in zip(places, template, strict=True)
    )
    return block, State(*arrays)
