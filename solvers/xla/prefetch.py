"""One prefetch: its start, its slices and its offset (XLA: `MsaAlgorithm::Prefetch`)."""

from ...env.compiled.kernel import routine
from .chunk_candidates import longest_fit
from .copy_resource import consume, has_enough, outstanding, take_back
from .heap import NO_OFFSET, bytes_since, commit, fit
from .interval_picker import begin, is_done, next_start, slice_starts
from .problem import NEVER, Problem
from .state import (
    DONE,
    FAST,
    NO_BANDWIDTH,
    NO_COPIES,
    NO_MEMORY,
    TOGETHER,
    TOO_SHORT,
    State,
    add_copy,
    add_stay,
    fill_by_copy,
    slice_need,
)

# A copy in slices must find this multiple of the bandwidth that it needs: XLA prefers to copy as a whole.
_SLICED = 1.8


@routine
def prefetch(problem: Problem, state: State, source: int) -> int:
    """Tries to prefetch a value for the use at hand.

    Slices are preferred; a copy as a whole, at the first start that admits one, is the fallback. A copy at the
    preferred time of the use is not checked against the bandwidth.

    Args:
      problem: the program.
      state: the decisions so far, and the use at hand.
      source: the stay in HBM to copy from.

    Returns:
      `DONE`, or the reasons against it as bits.
    """
    now, picker, cut = state.now, state.picker, state.cut
    buffer, use = problem.buffer[now.buffer], problem.use[now.use]
    size, end = buffer.bytes, min(use.latest, now.latest)
    slices = 0
    if size >= problem.limit.slice_min_bytes:
        slices = buffer.slices
        for place in range(slices):
            cut[place].bytes, cut[place].turn = problem.slice_bytes[buffer.first_slice + place], -1
    origin = state.stay[source]
    earliest = origin.done if origin.is_copied else origin.start
    before = now.use - 1
    if before >= problem.value[now.value].first_use and problem.use[before].resumes > problem.use[before].time:
        earliest = max(earliest, problem.use[before].resumes)
    fits_from = bytes_since(problem, state.heap, earliest, end, size)
    if fits_from >= end or end <= earliest:
        return NO_MEMORY
    if slices == 0:
        earliest = fits_from - 1
    need, preferred_time = buffer.copy, now.preferred_time
    if preferred_time != NEVER:
        need, preferred_time = 0, max(preferred_time, earliest)
    begin(problem, picker, buffer.typical_s, use.gain_s, earliest, end, preferred_time)
    for turn in range(slices):
        cut[turn].start = picker.latest
    if longest_fit(problem, state, picker.latest + 1, slices) == NO_OFFSET:
        return NO_MEMORY
    result, full = DONE, -(1 << 40)
    whole_start, whole_offset = NEVER, NO_OFFSET
    while not is_done(picker):
        start = next_start(problem, picker)
        if start <= full:
            return NO_MEMORY
        if slices > 0:
            slice_starts(problem, start, end, slices, cut)
            found, offset = _check_slices(problem, state, slices, end)
            if found == DONE:
                _take_slices(problem, state, slices, end, offset)
                return DONE
            if found != TOGETHER:
                result |= found
            if found == NO_MEMORY:
                full = max(full, start)
        if whole_start == NEVER:
            # XLA: `CheckPrefetchFit`.
            if outstanding(state.prefetches, start, end) >= problem.limit.prefetches + use.more_copies:
                result |= NO_COPIES
            elif not has_enough(state.prefetches, start, end, need):
                result |= NO_BANDWIDTH
            else:
                offset = longest_fit(problem, state, start + 1, 0)
                if offset != NO_OFFSET:
                    whole_start, whole_offset = start, offset
                    if slices == 0:
                        break
                else:
                    result |= NO_MEMORY
                    if slices == 0:
                        full = max(full, start)
    if whole_start == NEVER:
        return result if result else TOO_SHORT
    commit(state.heap, whole_start + 1, use.time, whole_offset, size)
    number = add_stay(state, now.value, FAST, whole_start + 1, use.time, whole_offset, now.group)
    fill_by_copy(state, number, whole_start, end, need)
    origin.end = max(origin.end, end)
    state.use[now.use].stay = number
    return DONE


@routine
def force_prefetch(problem: Problem, state: State, source: int) -> bool:
    """Prefetches a value right before the use at hand, whatever other copies there are; returns whether it fits."""
    now = state.now
    use, size = problem.use[now.use], problem.buffer[now.buffer].bytes
    offset = fit(problem, state.heap, use.time, use.time, size, -1)
    if offset == NO_OFFSET:
        return False
    commit(state.heap, use.time, use.time, offset, size)
    number = add_stay(state, now.value, FAST, use.time, use.time, offset, -1)
    fill_by_copy(state, number, use.time - 1, use.time, 0)
    origin = state.stay[source]
    origin.end = max(origin.end, use.time)
    state.use[now.use].stay = number
    return True


@routine
def _check_slices(problem: Problem, state: State, slices: int, end: int) -> tuple[int, int]:
    """Returns the result of a copy in slices, and its offset."""
    cut, most = state.cut, problem.limit.prefetches + problem.use[state.now.use].more_copies
    if cut[0].start == cut[slices - 1].start:
        return TOGETHER, NO_OFFSET
    for turn in range(slices):
        if outstanding(state.prefetches, cut[turn].start, end) + turn >= most:
            return NO_COPIES, NO_OFFSET
    least = cut[0].bytes
    for place in range(slices):
        least = min(least, cut[place].bytes)
    # The order of the slices is not known yet: the smallest first.
    shift = slices - 1 if cut[slices - 1].bytes == least else 0
    for turn in range(slices):
        cut[turn].chosen = (turn + shift) % slices
    if not _enough_for_slices(problem, state, slices, end):
        return NO_BANDWIDTH, NO_OFFSET
    offset = longest_fit(problem, state, cut[0].start + 1, slices)
    if offset == NO_OFFSET:
        return NO_MEMORY, NO_OFFSET
    if not _enough_for_slices(problem, state, slices, end):
        return NO_BANDWIDTH, NO_OFFSET
    return DONE, offset


@routine
def _enough_for_slices(problem: Problem, state: State, slices: int, end: int) -> bool:
    """Returns whether the bandwidth suffices for slices in the chosen order."""
    resource, cut = state.prefetches, state.cut
    changes = resource.now.changes
    fits = True
    for turn in range(slices):
        need = 0
        if state.now.preferred_time == NEVER:
            need = int(slice_need(problem, state.now.buffer, cut[cut[turn].chosen].bytes) * _SLICED)
        if not consume(resource, cut[turn].start, end, need):
            fits = False
            break
    take_back(resource, changes)
    return fits


@routine
def _take_slices(problem: Problem, state: State, slices: int, end: int, offset: int) -> None:
    """Adds the stay, the slices and the copies of a prefetch in slices."""
    now, cut = state.now, state.cut
    first, full_from, last = cut[0].start, cut[slices - 1].start + 1, problem.use[now.use].time
    number = add_stay(state, now.value, FAST, first + 1, last, offset, now.group)
    stay = state.stay[number]
    stay.is_copied, stay.begin, stay.done = 1, first, end
    stay.first_slice, stay.slices = now.slices, slices
    for turn in range(slices):
        place, start = cut[turn].chosen, cut[turn].start
        low, size = 0, cut[place].bytes
        for other in range(place):
            low += cut[other].bytes
        row = state.slice[now.slices]
        now.slices += 1
        row.begin, row.low, row.bytes = start, low, size
        commit(state.heap, start + 1, full_from - 1, offset + low, size)
        need = slice_need(problem, now.buffer, size) if now.preferred_time == NEVER else 0
        add_copy(state, 0, start, end, need, start)
    commit(state.heap, full_from, last, offset, problem.buffer[now.buffer].bytes)
    state.use[now.use].stay = number
