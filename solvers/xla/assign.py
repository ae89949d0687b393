"""The whole assignment: buffers one after the other, with retries and repacks (XLA: `MsaAlgorithm::Finish`)."""

import numpy as np

from ...env.compiled.jit import njit
from ...env.compiled.unowned import unowned
from . import heap as heaps
from .copy_resource import N_LOGGED, remove, take_back
from .cross_program import place_cross_program
from .efficiency import rule_out_inefficient
from .heap import Heap
from .problem import B_FIRST, B_LAST, L_REPACKS, L_RETRIES, V_FIRST, V_LAST, Problem
from .repack import repack
from .segments import place_buffer
from .state import (
    N_PARTS,
    N_PENDING,
    N_REPACKS,
    N_STAYS,
    NO_MEMORY,
    P_BEGIN,
    P_COUNTED,
    P_DONE,
    P_OUTWARD,
    UNDO,
    State,
    reset,
)


@njit(cache=True, nogil=True)
def assign(
    problem: Problem, state: State, spare: Heap, order: np.ndarray, preferred_time: np.ndarray, cross: np.ndarray
) -> None:
    """Places buffers in `state`.

    Args:
      problem: the program.
      state: overwritten; the decisions.
      spare: overwritten; a second heap, for repacking.
      order: the buffers to place, first to last.
      preferred_time: `[U]` preferred starts of prefetches, or `NEVER`.
      cross: inputs to prefetch across programs, placed before all others.
    """
    problem, state, spare = unowned(problem), unowned(state), unowned(spare)
    reset(state)
    heaps.reserve(problem, state.heap)
    for buffer in cross:
        place_cross_program(problem, state, buffer)
    for buffer in order:
        _place_with_retries(problem, state, spare, buffer, preferred_time)


@njit(cache=True, nogil=True)
def _place_with_retries(problem: Problem, state: State, spare: Heap, buffer: int, preferred_time: np.ndarray) -> None:
    """Places one buffer; on failure undoes all of it and tries anew, after a repack where memory was short."""
    retry, repacked = 0, False
    while retry < problem.limit[L_RETRIES]:
        chunks, stays, parts = state.heap.counts[heaps.N_CHUNKS], state.counts[N_STAYS], state.counts[N_PARTS]
        state.counts[N_PENDING] = 0
        state.prefetches.counts[N_LOGGED] = 0
        state.write_backs.counts[N_LOGGED] = 0
        result = place_buffer(problem, state, buffer, retry, preferred_time)
        if result & UNDO:
            _undo(problem, state, buffer, chunks, stays, parts)
            retry += 1
        elif result & NO_MEMORY and state.counts[N_REPACKS] < problem.limit[L_REPACKS] and not repacked:
            _undo(problem, state, buffer, chunks, stays, parts)
            state.counts[N_REPACKS] += 1
            repacked = True
            if not repack(problem, state, spare):
                retry += 1
        elif rule_out_inefficient(problem, state, buffer):
            _undo(problem, state, buffer, chunks, stays, parts)
        else:
            return


@njit(cache=True, nogil=True)
def _undo(problem: Problem, state: State, buffer: int, chunks: int, stays: int, parts: int) -> None:
    """Takes back the buffer's stays, copies and chunks (XLA: `UncommitPendingChunks`), down to the given counts."""
    heaps.undo(state.heap, chunks)
    state.counts[N_STAYS], state.counts[N_PARTS] = stays, parts
    for index in range(state.counts[N_PENDING] - 1, -1, -1):
        row = state.pending[index]
        resource = state.write_backs if row[P_OUTWARD] else state.prefetches
        remove(resource, row[P_BEGIN], row[P_COUNTED], row[P_DONE])
    state.counts[N_PENDING] = 0
    take_back(state.prefetches, 0)
    take_back(state.write_backs, 0)
    for value in range(problem.buffer[buffer, B_FIRST], problem.buffer[buffer, B_LAST]):
        state.span[value] = 0
        state.serves[problem.value[value, V_FIRST] : problem.value[value, V_LAST]] = -1
