"""Cross-program prefetches: inputs that the previous execution prefetches for this one.

XLA: `FindCrossProgramPrefetchCandidates` and `MsaAlgorithm::AllocateCrossProgramPrefetchBuffer`.
"""

import numpy as np
from numpy.typing import NDArray

from ...env.compiled.jit import njit
from ...env.program.mapping import CROSS_PROGRAM
from ...env.program.program import OPERAND, RESULT, Program
from . import heap as heaps
from .heap import NO_OFFSET, fit
from .interval_picker import elapsed, latest_start, preferred_start
from .problem import B_FIRST, B_SIZE, L_END, L_FAST, L_LAST, U_TIME, V_FIRST, V_LAST, Problem
from .state import A_BEGIN, A_COPY, A_CROSS, A_DONE, FAST, HBM, N_STAYS, State, add_copy, add_stay

# A buffer that occupies fast memory for less than this share of the time is freed and prefetched again at the end.
_MOST_OCCUPIED = np.float32(0.6)


def candidates(program: Program, problem: Problem) -> NDArray[np.int64]:
    """Returns the inputs to prefetch across programs, best first.

    XLA orders them by size, then by the bytes that their readers write, then by their last use, and leaves out those
    that look like activations by the operations that read them. A program does not name these operations: where it has
    a production mapping, its inputs are taken; elsewhere an input that a `copy` reads counts as an activation.
    """
    if program.production is not None:
        copies = program.production.copies
        return copies[copies[:, 1] == CROSS_PROGRAM, 0].copy()
    written = np.zeros(program.num_instructions)
    results = program.access_kind == RESULT
    np.add.at(written, program.access_instruction[results], program.access_bytes[results])
    found = []
    for buffer in np.flatnonzero((program.definition < 0) & program.fast_allowed & ~program.is_output).tolist():
        first, last = problem.buffer[buffer, :2]
        value = problem.value[first]
        size = int(program.size[buffer])
        mine = program.access_instruction[(program.access_buffer == buffer) & (program.access_kind == OPERAND)]
        copied = any(program.opcodes[t] == "copy" for t in mine)
        if last - first != 1 or len(mine) == 0 or size > problem.limit[L_FAST] or copied:
            continue
        users = problem.use[value[V_FIRST] : value[V_LAST]]
        found.append((-size, -float(written[mine].sum()), int(users[:, U_TIME].max()), buffer))
    return np.array([buffer for *_, buffer in sorted(found)], np.int64)


@njit(cache=True, nogil=True)
def place_cross_program(problem: Problem, state: State, buffer: int) -> bool:
    """Places a buffer as a cross-program prefetch; returns whether there was free space for it.

    Where memory is short, the buffer is freed after its last use and prefetched again at the end of the program.
    """
    value = problem.buffer[buffer, B_FIRST]
    first, last = problem.value[value, V_FIRST], problem.value[value, V_LAST]
    size, copy_s = problem.buffer[buffer, B_SIZE], problem.buffer_s[buffer]
    done, gone = problem.use[first, U_TIME], problem.use[last - 1, U_TIME]
    end = problem.limit[L_END] + 1
    offset = fit(problem, state.heap, 0, end, size, -1)
    if offset == NO_OFFSET:
        return False
    pressure = 0
    for other in range(len(problem.buffer)):
        if problem.buffer[other, B_SIZE] <= problem.limit[L_FAST]:
            pressure += problem.buffer[other, B_SIZE]
    latest = latest_start(problem, copy_s, np.float32(0.0), gone, end)
    again = int(end)
    if latest >= gone:
        again = preferred_start(problem, copy_s, gone, latest, end)
    occupied = elapsed(problem, 0, gone) + elapsed(problem, again, end)
    whole = elapsed(problem, 0, end)
    in_time = gone + 1 < again <= problem.limit[L_LAST]
    freed = pressure > problem.limit[L_FAST] and in_time and occupied < _MOST_OCCUPIED * whole
    state.span[value, 0] = state.counts[N_STAYS]
    add_stay(state, value, HBM, 0, end, NO_OFFSET, -1)
    until = gone if freed else end
    number = add_stay(state, value, FAST, 0, until, offset, -1)
    row = state.stay[number]
    row[A_COPY], row[A_BEGIN], row[A_DONE], row[A_CROSS] = 1, -1, done, 1
    heaps.commit(state.heap, 0, until, offset, size, number)
    add_copy(problem, state, 0, -1, done, 0, 0)
    if freed:
        copy = add_stay(state, value, FAST, again, end, offset, number)
        row = state.stay[copy]
        row[A_COPY], row[A_BEGIN], row[A_DONE], row[A_CROSS] = 1, again - 1, end, 2
        heaps.commit(state.heap, again, end, offset, size, copy)
        add_copy(problem, state, 0, again - 1, end, 0, 0)
    state.serves[first:last] = number
    return True
