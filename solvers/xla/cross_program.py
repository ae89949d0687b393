"""Cross-program prefetches: inputs that the previous execution prefetches for this one.

XLA: `FindCrossProgramPrefetchCandidates` and `MsaAlgorithm::AllocateCrossProgramPrefetchBuffer`.
"""

import numpy as np
from numpy.typing import NDArray

from ...env.compiled.kernel import routine
from ...env.program.mapping import CROSS_PROGRAM
from ...env.program.program import OPERAND, RESULT, Program
from .colors import give_up_reservation
from .heap import NO_OFFSET, commit, fit
from .interval_picker import elapsed, latest_start, preferred_start
from .problem import IN_HBM, Problem
from .state import FAST, HBM, State, add_stay, fill_by_copy

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
    for buffer in possible(program, problem).tolist():
        mine = _readers(program, buffer)
        if any(program.opcodes[t] == "copy" for t in mine):
            continue
        row = problem.buffer[buffer]
        values = problem.value[row["first_value"] : row["end_value"]]
        users = problem.use[values["first_use"][0] : values["end_use"][-1]]
        found.append((-int(program.size[buffer]), -float(written[mine].sum()), int(users["time"].max()), buffer))
    return np.array([buffer for *_, buffer in sorted(found)], np.int64)


def possible(program: Program, problem: Problem) -> NDArray[np.int64]:
    """Returns the inputs that XLA can prefetch across programs, whatever they look like, in ascending order.

    They fit into fast memory and are read, and nothing is written to them. Constants, although inputs of a program, are
    left out: the compiler crashes if it is told to prefetch one.
    """
    constant = np.array([name.partition(".")[0] == "constant" for name in program.buffer_names], bool)
    inputs = (program.definition < 0) & program.fast_allowed & ~program.is_output & ~constant
    fit_in = program.fast_size <= int(problem.limit.fast_bytes)
    inputs[program.access_buffer[program.access_kind == RESULT]] = False
    return np.array([b for b in np.flatnonzero(inputs & fit_in).tolist() if len(_readers(program, b))], np.int64)


def _readers(program: Program, buffer: int) -> NDArray[np.int64]:
    mine: NDArray[np.int64] = program.access_instruction[
        (program.access_buffer == buffer) & (program.access_kind == OPERAND)
    ]
    return mine


@routine
def place_cross_program(problem: Problem, state: State, number: int) -> None:
    """Places a buffer as a cross-program prefetch if memory is free over all times.

    Where memory is short, the buffer is freed after its last use and prefetched again at the end of the program. Uses
    that need it in HBM read it there.
    """
    buffer, limit = problem.buffer[number], problem.limit
    first, past = problem.value[buffer.first_value].first_use, problem.value[buffer.end_value - 1].end_use
    done, gone = problem.use[first].latest, problem.use[first].time
    served = False
    for use in range(first, past):
        if state.use[use].color == HBM:
            return
        served = served or problem.use[use].needs != IN_HBM
        gone = max(gone, problem.use[use].time)
    if not served:
        return
    end = limit.end + 1
    offset = fit(problem, state.heap, 0, end, buffer.bytes, -1)
    if offset == NO_OFFSET:
        return
    for value in range(buffer.first_value, buffer.end_value):
        for use in range(problem.value[value].first_use, problem.value[value].end_use):
            give_up_reservation(state, value, problem.use[use].time)
    pressure = 0
    for other in range(len(problem.buffer)):
        if problem.buffer[other].bytes <= limit.fast_bytes:
            pressure += problem.buffer[other].bytes
    latest = latest_start(problem, buffer.typical_s, np.float32(0.0), gone, end)
    again = end
    if latest >= gone:
        again = preferred_start(problem, buffer.typical_s, gone, latest, end)
    occupied = elapsed(problem, 0, gone) + elapsed(problem, again, end)
    in_time = gone + 1 < again <= limit.last_instruction
    freed = pressure > limit.fast_bytes and in_time and occupied < _MOST_OCCUPIED * elapsed(problem, 0, end)
    state.value[buffer.first_value].first_stay = state.now.stays
    home = add_stay(state, buffer.first_value, HBM, 0, end, NO_OFFSET, -1)
    until = gone if freed else end
    stay = add_stay(state, buffer.first_value, FAST, 0, until, offset, -1)
    state.stay[stay].cross = 1
    commit(state.heap, 0, until, offset, buffer.bytes)
    fill_by_copy(state, stay, -1, done, 0)
    if freed:
        copy = add_stay(state, buffer.first_value, FAST, again, end, offset, stay)
        state.stay[copy].cross = 2
        commit(state.heap, again, end, offset, buffer.bytes)
        fill_by_copy(state, copy, again - 1, end, 0)
    for use in range(first, past):
        state.use[use].stay = home if problem.use[use].needs == IN_HBM else stay
