"""The whole assignment: buffers one after the other, with retries and repacks (XLA: `MsaAlgorithm::Finish`)."""

from ...env.compiled.kernel import kernel, routine
from . import heap as heaps
from .colors import reserve_colored
from .conversions import gather_group, place_group
from .copy_resource import remove, take_back
from .cross_program import place_cross_program
from .efficiency import rule_out_inefficient
from .problem import Problem
from .repack import repack
from .segments import place_buffer
from .state import NO_MEMORY, NOT_CONVERTED, UNDO, State, Wishes, note_edges, reset


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
    for buffer in range(len(state.turn)):
        state.turn[buffer].is_over = 1
    for k in range(len(wishes.order)):
        state.turn[wishes.order[k]].is_over = 0
    for k in range(len(wishes.cross)):
        stays = now.stays
        place_cross_program(problem, state, wishes.cross[k])
        if now.stays > stays:
            state.turn[wishes.cross[k]].is_over = 1
        note_edges(state, stays)
    for k in range(len(wishes.order)):
        entrance = wishes.order[k]
        now.retry, repacked = 0, False
        if state.turn[entrance].is_over:
            continue
        while now.retry < problem.limit.retries:
            chunks, stays, slices = state.heap.now.chunks, now.stays, now.slices
            now.pending = state.prefetches.now.changes = state.write_backs.now.changes = 0
            gather_group(problem, state, entrance)
            now.buffer = state.group[0]
            if now.members > 1:
                result = place_group(problem, state, wishes.preferred_time)
            else:
                result = place_buffer(problem, state, wishes.preferred_time)
            if result & UNDO:
                _undo(problem, state, chunks, stays, slices)
                if result & NOT_CONVERTED:
                    continue
                if now.members > 1 and now.retry > 0:
                    state.turn[state.group[1]].is_fixed = 1  # another chance without one of the copies
                else:
                    now.retry += 1
            elif result & NO_MEMORY and now.repacks < problem.limit.repacks and not (repacked or now.converted):
                _undo(problem, state, chunks, stays, slices)
                now.repacks += 1
                repacked = True
                if not repack(problem, state):
                    now.retry += 1
            elif now.members == 1 and rule_out_inefficient(problem, state):
                _undo(problem, state, chunks, stays, slices)
            else:
                note_edges(state, stays)
                now.converted = now.converted or now.members > 1
                break
        for member in range(now.members):
            state.turn[state.group[member]].is_over = 1


@routine
def _undo(problem: Problem, state: State, chunks: int, stays: int, slices: int) -> None:
    """Takes back stays, copies and chunks of the group at hand (XLA: `UncommitPendingWork`), down to the counts."""
    now = state.now
    heaps.undo(state.heap, chunks)
    now.stays, now.slices = stays, slices
    for index in range(now.pending - 1, -1, -1):
        copy = state.pending[index]
        remove(state.write_backs if copy.outward else state.prefetches, copy.begin, copy.done)
    now.pending = 0
    take_back(state.prefetches, 0)
    take_back(state.write_backs, 0)
    for member in range(now.members):
        buffer = problem.buffer[state.group[member]]
        for value in range(buffer.first_value, buffer.end_value):
            state.value[value].first_stay = state.value[value].end_stay = 0
            for use in range(problem.value[value].first_use, problem.value[value].end_use):
                state.use[use].stay = -1
