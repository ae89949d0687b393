"""The whole assignment: buffers one after the other, with retries and repacks (XLA: `MsaAlgorithm::Finish`)."""

from ...env.compiled.kernel import kernel, routine
from . import heap as heaps
from .colors import reserve_colored
from .copy_resource import remove, take_back
from .cross_program import place_cross_program
from .efficiency import rule_out_inefficient
from .problem import Problem
from .repack import repack
from .segments import place_buffer
from .state import NO_MEMORY, UNDO, State, Wishes, reset


@kernel(Problem, State, Wishes)
def assign(problem: Problem, state: State, wishes: Wishes) -> None:
    """Places buffers in `state`, which is overwritten.

    A buffer that fails is undone and tried anew, after a repack where memory was short.
    """
    now = state.now
    reset(problem, state)
    for use in range(len(wishes.in_hbm)):
        state.use[use].is_out = wishes.in_hbm[use]
    reserve_colored(problem, state, wishes)
    for k in range(len(wishes.cross)):
        place_cross_program(problem, state, wishes.cross[k])
    for k in range(len(wishes.order)):
        now.buffer, now.retry = wishes.order[k], 0
        first = problem.buffer[now.buffer].first_value
        if state.value[first].end_stay > state.value[first].first_stay:
            continue  # prefetched across programs
        repacked = False
        while now.retry < problem.limit.retries:
            chunks, stays, slices = state.heap.now.chunks, now.stays, now.slices
            now.pending = state.prefetches.now.changes = state.write_backs.now.changes = 0
            result = place_buffer(problem, state, wishes.preferred_time)
            if result & UNDO:
                _undo(problem, state, chunks, stays, slices)
                now.retry += 1
            elif result & NO_MEMORY and now.repacks < problem.limit.repacks and not repacked:
                _undo(problem, state, chunks, stays, slices)
                now.repacks += 1
                repacked = True
                if not repack(problem, state):
                    now.retry += 1
            elif rule_out_inefficient(problem, state):
                _undo(problem, state, chunks, stays, slices)
            else:
                break


@routine
def _undo(problem: Problem, state: State, chunks: int, stays: int, slices: int) -> None:
    """Takes back stays, copies and chunks of the buffer at hand (XLA: `UncommitPendingChunks`), down to the counts."""
    now = state.now
    heaps.undo(state.heap, chunks)
    now.stays, now.slices = stays, slices
    for index in range(now.pending - 1, -1, -1):
        copy = state.pending[index]
        remove(state.write_backs if copy.outward else state.prefetches, copy.begin, copy.counted, copy.done)
    now.pending = 0
    take_back(state.prefetches, 0)
    take_back(state.write_backs, 0)
    buffer = problem.buffer[now.buffer]
    for value in range(buffer.first_value, buffer.end_value):
        state.value[value].first_stay = state.value[value].end_stay = 0
        for use in range(problem.value[value].first_use, problem.value[value].end_use):
            state.use[use].stay = -1
