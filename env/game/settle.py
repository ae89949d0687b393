"""Settling: the offsets of a finished game become the ones to take."""

import numpy as np

from .state import State
from .tables import Tables


def settle(tables: Tables, state: State) -> None:
    """Hints every access that a finished game served from fast memory at its offset there; other hints stay."""
    access, residency = tables.access, state.residency[: int(state.now.residencies)]
    span = len(tables.instruction) + 2
    begins = residency["buffer"] * span + residency["start"] + 1
    order = np.argsort(begins, kind="stable")
    fast = np.flatnonzero(state.access_fast)
    place = np.searchsorted(begins[order], access["buffer"][fast] * span + access["instruction"][fast] + 1, "right") - 1
    row = order[np.maximum(place, 0)]
    serves = (place >= 0) & (residency["buffer"][row] == access["buffer"][fast])
    serves &= residency["end"][row] >= access["instruction"][fast]
    access["hint"][fast[serves]] = residency["offset"][row[serves]]
