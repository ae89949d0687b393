"""The state of a game: arrays that compiled code steps, all in one block of bytes.

The fields of its records are listed in `records.py`.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compiled.spans import SPAN
from ..compiled.struct import Rows, Struct, one, part, rows
from .records import COPY, HOLDER, HOLDING, NOW, PENDING, RESIDENCY, STEP, UNTOUCHED
from .tables import Tables


class Space(Struct):
    """The space in which offsets are searched: nothing in it outlives a search. Shapes: `N` buffers, `R` residencies.

    Attributes:
      lost, hard: `[N + 1]` sums over the residents before: the cost of evicting them, and how many cannot be evicted.
      left: `[R + 1]` bytes that residencies have left within a window, disjoint and by offset.
    """

    lost: NDArray[np.float64] = rows(np.float64)
    hard: NDArray[np.int64] = rows(np.int64)
    left: Rows = rows(SPAN)


def _space(tables: Tables) -> Space:
    residents, residencies = len(tables.buffer) + 1, most_copies(tables) + 1 + len(tables.buffer)
    return Space(
        lost=np.zeros(residents),
        hard=np.zeros(residents, np.int64),
        left=np.zeros(residencies, SPAN),
    )


class State(Struct):
    """All that changes while a game is played. Shapes: as `Tables`; `R` residencies and `C` copies at most.

    Attributes:
      access_fast: `[A]` `IN_HBM`, `FAST` or `FAST_AND_OUT`.
      buffer: `[N]`.
      step: `[T + 1]` instructions, and the end of the program.
      holders: `[N + 1]` the buffers in fast memory, disjoint and sorted by offset.
      residency: `[R]`.
      copy: `[C]`.
      queue: `[C]` the pending write-backs, first in, first out.
      untouched: `[UNTOUCHED]` unused gaps, sorted by offset.
      owed: `[N + 1]` buffers that a loop holds and whose place was taken: they are fetched again.
      now: one record.
      space: not a part of the state proper: no copy of a state has it.
    """

    access_fast: NDArray[np.int8] = rows(np.int8)
    buffer: Rows = rows(HOLDING)
    step: Rows = rows(STEP)
    holders: Rows = rows(HOLDER)
    residency: Rows = rows(RESIDENCY)
    copy: Rows = rows(COPY)
    queue: Rows = rows(PENDING)
    untouched: Rows = rows(SPAN)
    owed: NDArray[np.int64] = rows(np.int64)
    now: Any = one(NOW)
    space: Space = part(Space)


def most_copies(tables: Tables) -> int:
    """Returns the most residencies and the most copies that a game can have: one for each access, one for each fetch of
    what a loop holds, and one at the end of the program."""
    return len(tables.access) + int((tables.returning["back"] >= 0).sum()) + 1


def _arrays(tables: Tables) -> dict[str, NDArray[Any]]:
    """Returns arrays large enough for any game on `tables`, `now` as an array of one record."""
    accesses, buffers, steps = len(tables.access), len(tables.buffer), len(tables.instruction)
    return {
        "access_fast": np.zeros(accesses, np.int8),
        "buffer": np.zeros(buffers, HOLDING),
        "step": np.zeros(steps, STEP),
        "untouched": np.zeros(UNTOUCHED, SPAN),
        "owed": np.zeros(buffers + 1, np.int64),
        "now": np.zeros(1, NOW),
        # Only their used rows matter: `env/game/current.py` copies no others.
        "holders": np.zeros(buffers + 1, HOLDER),
        "residency": np.zeros(most_copies(tables), RESIDENCY),
        "copy": np.zeros(most_copies(tables), COPY),
        "queue": np.zeros(accesses + 1, PENDING),
    }


def _state(tables: Tables, arrays: dict[str, NDArray[Any]]) -> State:
    return State(**{**arrays, "now": arrays["now"].view(np.recarray)[0]}, space=_space(tables))


def pooled_state(tables: Tables) -> tuple[NDArray[np.uint8], State]:
    """Returns a block of bytes and the state whose arrays it holds, large enough for any game on `tables`.

    One copy of the block saves or restores the state, which `rules.reset` fills.
    """
    template = _arrays(tables)
    places, end = [], 0
    for array in template.values():
        places.append(end)
        end += -(-array.nbytes // 64) * 64
    block = np.zeros(end, np.uint8)
    arrays = (
        block[place : place + array.nbytes].view(array.dtype)
        for place, array in zip(places, template.values(), strict=True)
    )
    return block, _state(tables, dict(zip(template, arrays, strict=True)))
