"""Stays that serve too few bytes for the bytes copied for them (XLA: `GetInefficientAllocationSites`)."""

import numpy as np

from ...env.compiled.jit import njit
from .problem import B_FIRST, B_LAST, B_SIZE, R_INEFFICIENT, U_BYTES, U_NEXT, V_BYTES, V_FIRST, V_LAST, Problem
from .state import A_COPY, A_FAST, State


@njit(cache=True, nogil=True)
def rule_out_inefficient(problem: Problem, state: State, buffer: int) -> bool:
    """Marks values and uses of inefficient stays, which must be in HBM from then on; returns whether any is new.

    Stays that are linked by an operation in place are judged together.
    """
    ratio = problem.ratio[R_INEFFICIENT]
    if ratio <= 0:
        return False
    first, last = problem.buffer[buffer, B_FIRST], problem.buffer[buffer, B_LAST]
    size = problem.buffer[buffer, B_SIZE]
    copies = False
    begin, end = state.span[first, 0], state.span[last - 1, 1]
    for number in range(begin, end):
        copies |= state.stay[number, A_COPY] == 1
    if not copies:
        return False
    link = np.full(end - begin, -1, np.int64)
    of_value = np.full(last - first, -1, np.int64)
    links = 0
    for value in range(first, last):
        for number in range(state.span[value, 0], state.span[value, 1]):
            fast, copy = state.stay[number, A_FAST], state.stay[number, A_COPY]
            if not fast and not copy:
                continue
            found = of_value[value - first] if fast != copy else -1  # -1 unless defined in fast memory
            if found < 0:
                found = links
                links += 1
            link[number - begin] = found
            if fast:
                for use in range(problem.value[value, V_FIRST], problem.value[value, V_LAST]):
                    if state.serves[use] == number and problem.use[use, U_NEXT] >= 0:
                        of_value[problem.use[use, U_NEXT] - first] = found
    copied = np.zeros(links, np.int64)
    served = np.zeros(links, np.int64)
    for value in range(first, last):
        for number in range(state.span[value, 0], state.span[value, 1]):
            at = link[number - begin]
            if at >= 0:
                fast, copy = state.stay[number, A_FAST], state.stay[number, A_COPY]
                copied[at] += size * copy
                if fast != copy:
                    served[at] += problem.value[value, V_BYTES]
                if fast:
                    for use in range(problem.value[value, V_FIRST], problem.value[value, V_LAST]):
                        if state.serves[use] == number:
                            served[at] += problem.use[use, U_BYTES]
    new = False
    for value in range(first, last):
        for number in range(state.span[value, 0], state.span[value, 1]):
            at = link[number - begin]
            if at < 0 or copied[at] == 0 or ratio * copied[at] <= served[at]:
                continue
            fast, copy = state.stay[number, A_FAST], state.stay[number, A_COPY]
            if fast and not copy and not state.stay_out[value]:
                state.stay_out[value] = True
                new = True
            if fast:
                for use in range(problem.value[value, V_FIRST], problem.value[value, V_LAST]):
                    if state.serves[use] == number and not state.use_out[use]:
                        state.use_out[use] = True
                        new = True
    return new
