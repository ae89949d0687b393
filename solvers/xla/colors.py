"""Colored values: those that a kernel must have in fast memory, or in HBM (XLA: `MsaAlgorithm::ProcessColoredBuffers`).

Memory is reserved for every color first of all, for the time of its kernel alone. When the value is placed, its
reservations are given up, so that what has to fit does.
"""

import numpy as np
from numpy.typing import NDArray

from ...env.compiled.kernel import routine
from .heap import NO_OFFSET, commit, fit, free
from .problem import Accesses, Problem
from .state import FAST, FREE, State, Wishes


def color_wishes(
    problem: Problem, accesses: Accesses, color: NDArray[np.int8]
) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    """Returns the colors of values, `[V]`, and of uses, `[U]`, for the colors `[A]` of accesses.

    A loop that uses a value as a whole has no color. Uses of one value at one time share the color of any of them.
    """
    values = np.full(len(problem.value), FREE, np.int8)
    uses = np.full(len(problem.use), FREE, np.int8)
    if (color == FREE).all():
        return values, uses
    defined = np.flatnonzero(accesses.values >= 0)
    values[defined] = color[accesses.values[defined]]
    links = accesses.links[color[accesses.links[:, 1]] != FREE]
    uses[links[:, 0]] = color[links[:, 1]]
    value_of = np.repeat(np.arange(len(problem.value)), problem.value["end_use"] - problem.value["first_use"])
    for use in np.flatnonzero(uses != FREE).tolist():
        together = (value_of == value_of[use]) & (problem.use["time"] == problem.use["time"][use])
        uses[together] = uses[use]
    return values, uses


@routine
def reserve_colored(problem: Problem, state: State, wishes: Wishes) -> None:
    """Notes the colors, and reserves memory for values in fast memory; one that does not fit loses its color."""
    state.now.reservations = 0
    for value in range(len(state.value)):
        row, held = problem.value[value], state.value[value]
        held.color = wishes.value_color[value]
        held.first_reserved = state.now.reservations
        if held.color == FAST and not _reserve(problem, state, value, row.time):
            held.color = FREE
        before = -1
        for use in range(row.first_use, row.end_use):
            served, time = state.use[use], problem.use[use].time
            served.color = wishes.use_color[use]
            if served.color == FAST and time != before and not _reserve(problem, state, value, time):
                served.color = FREE
            before = time
        held.end_reserved = state.now.reservations


@routine
def _reserve(problem: Problem, state: State, value: int, time: int) -> bool:
    size = problem.buffer[problem.value[value].buffer].bytes
    offset = fit(problem, state.heap, time, time, size, -1)
    if offset == NO_OFFSET:
        return False
    row = state.reservation[state.now.reservations]
    row.time, row.offset, row.bytes, row.chunk = time, offset, size, state.heap.now.chunks
    state.now.reservations += 1
    commit(state.heap, time, time, offset, size)
    return True


@routine
def give_up_reservation(state: State, value: int, time: int) -> None:
    """Frees the memory that is reserved for a value at a time, if any still is."""
    held = state.value[value]
    for number in range(held.first_reserved, held.end_reserved):
        row = state.reservation[number]
        if row.time == time and row.chunk >= 0:
            free(state.heap, row.chunk)
            row.chunk = -1
