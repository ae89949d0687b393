"""The steps from one use of a value to the next (XLA: `MsaAlgorithm::AllocateSegment`).

A value is kept in fast memory; else it is written back, once, and prefetched for the use; else it is read from HBM.
"""

from ...env.compiled.kernel import routine
from ...env.compiled.struct import Rows
from .chunk_candidates import longest_fit
from .colors import give_up_reservation
from .copy_resource import has_enough, outstanding
from .heap import NO_OFFSET, commit, fit, latest_free
from .interval_picker import can_stay, write_back_end
from .prefetch import force_prefetch, prefetch
from .problem import AS_ENTERED, IN_HBM, M_DEFAULT, M_KEEP, WRITTEN, Problem
from .state import (
    CONFLICT,
    DONE,
    FAST,
    FREE,
    HBM,
    MIRRORED_HOME,
    NO_COPIES,
    NO_HOME,
    NO_MEMORY,
    NOT_FAST,
    OWN_HOME,
    TOO_LONG,
    UNDO,
    State,
    add_stay,
    fill_by_copy,
)


@routine
def place_buffer(problem: Problem, state: State, preferred_time: Rows) -> int:
    """Places all values of the buffer at hand (XLA: `AllocateAllocationValues`); returns results as bits."""
    begin_value(problem, state, state.now.buffer)
    buffer = problem.buffer[state.now.buffer]
    return place_values(problem, state, preferred_time, buffer.first_value, buffer.end_value)


@routine
def begin_value(problem: Problem, state: State, buffer: int) -> None:
    """Lets all values of a buffer begin anywhere."""
    for value in range(problem.buffer[buffer].first_value, problem.buffer[buffer].end_value):
        state.value[value].memory = FREE
        state.value[value].home = NO_HOME


@routine
def place_values(problem: Problem, state: State, preferred_time: Rows, first: int, end: int) -> int:
    """Places values of the buffer at hand; returns results as bits."""
    now, result = state.now, DONE
    for value in range(first, end):
        row, held = problem.value[value], state.value[value]
        held.first_stay = held.end_stay = now.stays
        now.value, now.offset, now.group = value, NO_OFFSET, -1
        if row.within >= 0:
            entered = state.use[row.within].stay
            if entered < 0:
                continue
            stay = state.stay[entered]
            if stay.memory == FAST:
                now.offset, now.group = stay.offset, stay.group
            if row.enters:
                held.memory, held.offset, held.group = stay.memory, stay.offset, stay.group
                after = state.value[problem.use[row.within].next_value].home
                held.home = NO_HOME if after == NO_HOME else OWN_HOME
        if held.home != NO_HOME:
            add_stay(state, value, HBM, row.time, row.time, NO_OFFSET, -1)
        before = row.time
        for use in range(row.first_use, row.end_use):
            if problem.use[use].held_since >= 0:
                continue
            now.use, now.preferred_time = use, preferred_time[use]
            result |= segment(problem, state, before, False)
            if result & UNDO:
                return result
            before = problem.use[use].resumes
            following = problem.use[use].next_value
            if following >= 0 and not hand_on(problem, state, following):
                return result | UNDO
        if not hold_value(problem, state, value):
            return result | UNDO
        if row.first_use == row.end_use and held.memory == FAST:
            add_stay(state, value, FAST, row.time, row.time, held.offset, held.group)
    return result


@routine
def hold_value(problem: Problem, state: State, value: int) -> bool:
    """Serves the uses with which collectives let go of a value; returns whether they may."""
    for use in range(problem.value[value].first_use, problem.value[value].end_use):
        if problem.use[use].held_since >= 0 and not _hold(problem, state, use):
            return False
    return True


@routine
def _hold(problem: Problem, state: State, use: int) -> bool:
    """Serves a use with which a collective lets go of what it reads, where it took hold of it; returns whether it may.

    In fast memory the value stays there meanwhile (XLA: contiguous allocation).
    """
    time = problem.use[use].time
    number = state.use[problem.use[use].held_since].stay
    stay = state.stay[number]
    if stay.memory == FAST and stay.end < time:
        size = problem.buffer[state.now.buffer].bytes
        if fit(problem, state.heap, stay.end + 1, time, size, stay.offset) == NO_OFFSET:
            return False
        commit(state.heap, stay.end + 1, time, stay.offset, size)
    stay.end = max(stay.end, time)
    state.use[use].stay = number
    return True


@routine
def _must_begin(problem: Problem, state: State, value: int) -> int:
    """Returns the memory in which a value must begin, or `FREE`."""
    if problem.value[value].begins_in_hbm or state.value[value].is_out:
        return HBM
    return state.value[value].memory


@routine
def hand_on(problem: Problem, state: State, following: int) -> bool:
    """Makes the value that is written in place begin where the use at hand finds the buffer; returns whether it may."""
    number = live_at(state, problem.use[state.now.use].time)
    if number < 0:
        return True
    stay, held = state.stay[number], state.value[following]
    required = _must_begin(problem, state, following)
    if required == HBM and stay.memory == FAST:
        return False
    if required == FAST and (stay.memory == HBM or held.offset != stay.offset):
        return False
    held.memory, held.offset, held.group = stay.memory, stay.offset, stay.group
    if stay.memory == FAST and problem.use[state.now.use].is_unchanged and _has_home(state):
        held.home = MIRRORED_HOME
    return True


@routine
def _has_home(state: State) -> bool:
    """Returns whether HBM has the value at hand, other than mirrored there.

    XLA: `MaybeCreateMirroredParentAllocationForWhileUse`.
    """
    held = state.value[state.now.value]
    home = last_in(state, HBM)
    return home > held.first_stay or (home >= 0 and held.home != MIRRORED_HOME)


@routine
def live_at(state: State, time: int) -> int:
    """Returns the last stay of the value at hand that includes a time, or -1."""
    held = state.value[state.now.value]
    for number in range(held.end_stay - 1, held.first_stay - 1, -1):
        stay = state.stay[number]
        if stay.value == state.now.value and stay.start <= time <= stay.end:
            return number
    return -1


@routine
def last_in(state: State, memory: int) -> int:
    """Returns the last stay of the value at hand in one memory, or -1."""
    held = state.value[state.now.value]
    for number in range(held.end_stay - 1, held.first_stay - 1, -1):
        if state.stay[number].value == state.now.value and state.stay[number].memory == memory:
            return number
    return -1


@routine
def segment(problem: Problem, state: State, before: int, only_extends: bool) -> int:
    """Serves the use at hand, the time of the use before it being `before`; returns results as bits.

    If it `only_extends`, the value is not prefetched for it.
    """
    now = state.now
    value, use = now.value, now.use
    row, held = problem.use[use], state.value[value]
    end = row.time
    start = min(before, end)
    if start == end and held.end_stay > held.first_stay and row.needs != AS_ENTERED:
        state.use[use].stay = live_at(state, end)
        return DONE
    around = _stays_around(problem, state, end)
    if around >= 0:
        state.use[use].stay = around
        return DONE
    at_start, at_end = FREE, FREE
    first = problem.value[value].first_use
    if use == first:
        at_start = _must_begin(problem, state, value)
    else:
        for other in range(use - 1, first - 1, -1):
            if problem.use[other].resumes != start:
                break
            if state.use[other].is_out:
                at_start = HBM
    if is_barred(problem, state, use):
        at_end = HBM
    elif row.needs == AS_ENTERED:
        at_end = HBM if state.now.offset == NO_OFFSET else FAST
    elif row.next_value >= 0:
        at_end = _must_begin(problem, state, row.next_value)
    if at_start != FREE:
        there = last_in(state, at_start)
        if there >= 0:
            state.stay[there].end = max(state.stay[there].end, start)
        elif at_start == HBM:
            add_stay(state, value, HBM, start, start, NO_OFFSET, -1)
        else:
            add_stay(state, value, FAST, start, start, held.offset, held.group)
    offset, group = now.offset, now.group
    if at_end == FAST and row.next_value >= 0:
        # Where another branch of the conditional has put what comes out of it.
        now.offset, now.group = state.value[row.next_value].offset, state.value[row.next_value].group
    result = _serve(problem, state, before, only_extends, at_start, at_end)
    now.offset, now.group = offset, group
    return result


@routine
def _serve(problem: Problem, state: State, before: int, only_extends: bool, at_start: int, at_end: int) -> int:
    """Serves the use at hand, given the memory of the value before and after (`FREE`: any); returns results as bits."""
    value, use = state.now.value, state.now.use
    row, held = problem.use[use], state.value[value]
    end = row.time
    start = min(before, end)
    result = DONE
    must_begin, must_end = FREE, state.use[use].color
    if use == problem.value[value].first_use and start == problem.value[value].time:
        must_begin = held.color
    if must_begin == FAST:
        give_up_reservation(state, value, start)
    if must_end == FAST:
        give_up_reservation(state, value, end)
    in_hbm = at_start == HBM or at_end == HBM or must_begin == HBM or must_end == HBM
    if not in_hbm and row.mode != M_DEFAULT:
        result = _keep(problem, state, start)
        if result == DONE:
            return DONE
    if must_begin == FAST and held.end_stay == held.first_stay:
        _begin_in_fast(problem, state, start)
    source = last_in(state, HBM)
    is_still = row.held_since == WRITTEN
    if source < 0:
        if held.end_stay > held.first_stay:
            if is_still:
                return result | UNDO
            failed = write_back(problem, state)
            if failed != DONE and must_begin == FAST:
                _force_write_back(problem, state)
                failed = DONE
            if failed != DONE:
                return result | failed | UNDO
            source = held.end_stay - 1
        else:
            source = add_stay(state, value, HBM, start, end, NO_OFFSET, -1)
    if at_end != HBM and must_end != HBM and row.mode != M_DEFAULT and not is_still and not only_extends:
        failed = prefetch(problem, state, source)
        if failed == DONE:
            return DONE
        result |= failed
    if must_end == FAST and force_prefetch(problem, state, source):
        return DONE
    if at_end == FAST:
        return result | UNDO
    state.stay[source].end = max(state.stay[source].end, end)
    state.use[use].stay = source
    return result


@routine
def _stays_around(problem: Problem, state: State, time: int) -> int:
    """Returns the stay in which a value that a branch only reads lasts beyond the conditional, or -1."""
    entered = problem.value[state.now.value].within
    if entered < 0 or problem.use[entered].resumes == problem.use[entered].time:
        return -1
    number = state.use[entered].stay
    stay = state.stay[number]
    return number if stay.memory == FAST and stay.start <= time <= stay.end else -1


@routine
def is_barred(problem: Problem, state: State, use: int) -> bool:
    """Returns whether a use must be served from HBM, whatever comes after it."""
    row = problem.use[use]
    if row.needs == IN_HBM or state.use[use].is_out:
        return True
    # XLA: `IsUseAllowedInAlternateMemory`.
    return row.needs != AS_ENTERED and row.entered >= 0 and not can_stay(problem, row.entered, row.first)


@routine
def _keep(problem: Problem, state: State, start: int) -> int:
    """Keeps a value in fast memory up to the use at hand (XLA: `AllocateInAlternateMemoryNoCopy`)."""
    now = state.now
    held, use = state.value[now.value], problem.use[now.use]
    size, end = problem.buffer[now.buffer].bytes, use.time
    number = held.end_stay - 1 if held.end_stay > held.first_stay else -1
    if number >= 0 and state.stay[number].memory != FAST:
        return NOT_FAST
    if number >= 0 and now.group >= 0 and state.stay[number].group != now.group:
        return CONFLICT
    if use.mode != M_KEEP and not can_stay(problem, start, use.time):
        return TOO_LONG
    if number >= 0:
        first = state.stay[number].end + 1
        offset = fit(problem, state.heap, first, end, size, state.stay[number].offset)
    else:
        first = start
        offset = longest_fit(problem, state, first, 0)
    if offset == NO_OFFSET:
        return NO_MEMORY
    if number >= 0:
        state.stay[number].end = max(state.stay[number].end, end)
    else:
        number = add_stay(state, now.value, FAST, start, end, offset, now.group)
    commit(state.heap, first, end, offset, size)
    state.use[now.use].stay = number
    return DONE


@routine
def _begin_in_fast(problem: Problem, state: State, time: int) -> None:
    """Has the value at hand in fast memory when it is defined (XLA: `ForceAlternateMemoryAllocationForMinTime`)."""
    size = problem.buffer[state.now.buffer].bytes
    offset = fit(problem, state.heap, time, time, size, -1)
    if offset != NO_OFFSET:
        add_stay(state, state.now.value, FAST, time, time, offset, -1)
        commit(state.heap, time, time, offset, size)


@routine
def _force_write_back(problem: Problem, state: State) -> None:
    """Writes the value at hand back at once, whatever other copies there are."""
    stay = state.stay[state.value[state.now.value].end_stay - 1]
    begin = stay.end
    number = add_stay(state, state.now.value, HBM, begin + 1, begin + 1, NO_OFFSET, -1)
    fill_by_copy(state, number, begin, begin + 1, 0)


@routine
def write_back(problem: Problem, state: State) -> int:
    """Writes the value at hand back from its definition on (XLA: `Evict`)."""
    now = state.now
    buffer, use = problem.buffer[now.buffer], problem.use[now.use]
    stay = state.stay[state.value[now.value].end_stay - 1]
    begin, end = stay.start, stay.end
    deadline = write_back_end(problem, buffer.typical_s, begin, use.time, now.retry)
    deadline = min(max(deadline, end), use.latest)
    first = end + 1
    if deadline > end:
        latest = max(end, latest_free(state.heap, first, deadline, stay.offset, buffer.bytes))
        # XLA ends it there, or where memory frees up.
        while end < latest < deadline and not state.edge[latest + 1]:
            latest -= 1
        end = latest
    need = buffer.copy
    resource = state.write_backs
    if not has_enough(resource, begin, end, need):
        if now.retry == problem.limit.retries - 1:
            need = 0
        if not has_enough(resource, begin, end, need):
            return NO_COPIES
    if end == begin or outstanding(resource, begin + 1, end) + 1 >= problem.limit.write_backs:
        return NO_COPIES
    commit(state.heap, first, end, stay.offset, buffer.bytes)
    stay.end = end
    number = add_stay(state, now.value, HBM, begin + 1, end, NO_OFFSET, -1)
    fill_by_copy(state, number, begin, end, need)
    return DONE
