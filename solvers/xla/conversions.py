"""Synchronous copies that an asynchronous one replaces (XLA: sync copy replacement, `GenerateJointProcessedValues`).

A copy that keeps the layout is converted if what it makes can be prefetched, from what it reads, for its one use. What
it reads and all that such copies make of it are placed together. A copy that cannot be converted stays synchronous, and
what it makes gets its own turn.
"""

from ...env.compiled.kernel import routine
from ...env.compiled.struct import Rows
from .heap import NO_OFFSET
from .prefetch import prefetch
from .problem import Problem
from .segments import begin_value, hand_on, hold_value, is_barred, last_in, place_values, segment, write_back
from .sorting import sort
from .state import DONE, HBM, NOT_CONVERTED, UNDO, State


@routine
def gather_group(problem: Problem, state: State, entrance: int) -> None:
    """Sets `group` to a buffer and those to be placed with it: first the one that copies read, then what they make."""
    now = state.now
    center = entrance
    source = problem.buffer[entrance].copied_from
    if source >= 0 and _is_open(problem, state, entrance):
        center = source
    state.group[0] = center
    now.members = 1
    for at in range(problem.buffer[center].first_copy, problem.buffer[center].end_copy):
        if _is_open(problem, state, problem.copies[at]):
            state.group[now.members] = problem.copies[at]
            now.members += 1
    if now.members == 1:
        state.group[0] = entrance
        return
    # When the uses of all are, by time.
    now.moments = 0
    for member in range(now.members):
        buffer = problem.buffer[state.group[member]]
        for at in range(buffer.first_moment, buffer.end_moment):
            state.joint[now.moments] = problem.moment[at]
            now.moments += 1
    sort(state.joint, state.other, now.moments)


@routine
def _is_open(problem: Problem, state: State, made: int) -> bool:
    """Returns whether the copy that makes a buffer may be converted: neither it nor what it reads has been placed."""
    source = problem.buffer[made].copied_from
    return not (state.turn[made].is_fixed or state.turn[made].is_over or state.turn[source].is_over)


@routine
def place_group(problem: Problem, state: State, preferred_time: Rows) -> int:
    """Places the buffers of a group, converting all copies between them; returns results as bits.

    With `NOT_CONVERTED`, the copy that failed is fixed: it stays synchronous.
    """
    now = state.now
    for member in range(now.members):
        begin_value(problem, state, state.group[member])
    source = problem.buffer[state.group[0]].first_value
    result = _place_source(problem, state, preferred_time, source)
    for member in range(now.members):
        if result & UNDO:
            return result
        now.buffer = state.group[member]
        buffer = problem.buffer[now.buffer]
        result |= place_values(problem, state, preferred_time, buffer.first_value + 1, buffer.end_value)
    return result


@routine
def _place_source(problem: Problem, state: State, preferred_time: Rows, source: int) -> int:
    """Places the value that the copies read, and the values that they make, use by use in the order of time."""
    now, row, held = state.now, problem.value[source], state.value[source]
    now.buffer, now.value, now.offset, now.group = state.group[0], source, NO_OFFSET, -1
    held.first_stay = held.end_stay = now.stays
    result, before = DONE, row.time
    use = row.first_use
    while True:
        made, made_use = _next_made(problem, state)
        own = row.end_use if use >= row.end_use else use
        if own == row.end_use and made < 0:
            break
        if made >= 0 and (own == row.end_use or problem.use[made_use].time < problem.use[own].time):
            now.preferred_time = preferred_time[made_use]
            if not _convert(problem, state, source, made, made_use):
                state.turn[made].is_fixed = 1
                return result | UNDO | NOT_CONVERTED
            now.buffer, now.value, now.offset, now.group = state.group[0], source, NO_OFFSET, -1
            continue
        use = own + 1
        if problem.use[own].held_since >= 0:
            continue
        now.use, now.preferred_time = own, preferred_time[own]
        converts = _reads_for_copy(problem, state, own)
        result |= segment(problem, state, before, converts)
        if result & UNDO:
            break
        before = problem.use[own].resumes
        if converts:
            state.use[own].stay = -1
        following = problem.use[own].next_value
        if following >= 0 and not hand_on(problem, state, following):
            return result | UNDO
    if result & UNDO:
        return result
    return result if hold_value(problem, state, source) else result | UNDO


@routine
def _reads_for_copy(problem: Problem, state: State, use: int) -> bool:
    """Returns whether a use is the read of a copy of the group."""
    found = False
    for member in range(1, state.now.members):
        found = found or problem.buffer[state.group[member]].copy_use == use
    return found


@routine
def _next_made(problem: Problem, state: State) -> tuple[int, int]:
    """Returns the first use of what copies make that is not served yet: its buffer and the use; -1, -1 for none."""
    found, found_use = -1, -1
    for member in range(1, state.now.members):
        value = problem.value[problem.buffer[state.group[member]].first_value]
        for use in range(value.first_use, value.end_use):
            if state.use[use].stay >= 0:
                continue
            if found_use < 0 or problem.use[use].time < problem.use[found_use].time:
                found, found_use = state.group[member], use
            break
    return found, found_use


@routine
def _convert(problem: Problem, state: State, source: int, made: int, use: int) -> bool:
    """Serves a use of what a copy makes by a prefetch of what it reads; returns whether it could."""
    now = state.now
    value = problem.buffer[made].first_value
    held, row = state.value[value], problem.use[use]
    is_first = held.end_stay == held.first_stay
    if not is_first and row.time == state.stay[held.end_stay - 1].end:
        state.use[use].stay = held.end_stay - 1
    else:
        now.value, now.use = source, use
        if is_barred(problem, state, use):
            return False
        home = last_in(state, HBM)
        if home < 0:
            if write_back(problem, state) != DONE:
                return False
            home = state.value[source].end_stay - 1
        if is_first:
            held.first_stay = now.stays
        now.buffer, now.value = made, value
        # Only uses at one time share a copy; XLA notices when it has made another.
        now.latest = problem.buffer[state.group[0]].passed
        result = prefetch(problem, state, home)
        now.latest = 1 << 60
        if result != DONE or not is_first:
            return False
        state.stay[held.end_stay - 1].replaces = 1
    now.buffer, now.value, now.use = made, value, use
    following = row.next_value
    return following < 0 or hand_on(problem, state, following)
