"""The tables of a `Problem`, built from a program, a target and options."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ...env.compiled.struct import new_record
from ...env.program.assignment_facts import assignment_facts
from ...env.program.program import RESULT, Program, replaced_pair
from ...env.program.target import Target
from .cost_analysis import bandwidths
from .loop_times import LoopTimes, loop_times
from .module_facts import slice_sizes, typical_bytes
from .options import KEPT, Options
from .problem import BUFFER, LIMIT, NEVER, SCALE, Accesses, Problem
from .schedule import Times, depth, schedule
from .values import Rows


def make_problem(program: Program, target: Target, options: Options) -> tuple[Problem, Accesses]:
    """Returns the tables of a program for compiled code, and the links from them back to its accesses."""
    times = schedule(program, target)
    loop = _loop_times(program, target).innermost(program, times.loop)
    nest, repeated = depth(program, loop), depth(program, loop, repeated=True)
    weight = np.float32(options.while_trips) ** repeated.astype(np.float32)
    seconds = times.seconds.astype(np.float32) * weight
    elapsed = np.zeros(len(seconds) + 1, np.float32)
    np.cumsum(seconds, dtype=np.float32, out=elapsed[1:])
    bandwidth = options.copy_bandwidth_scale * bandwidths(target)[0]
    copy_s = program.size / bandwidth
    typical = typical_bytes(program) if options.typical_bytes is None else options.typical_bytes
    sizes = slice_sizes(program, options)
    rows = _rows(program, target)
    alike, copies = _buffers(program, target)
    buffer = alike.copy()
    buffer["copy"] = copy_s.astype(np.float32).astype(np.float64) * SCALE
    buffer["slices"] = [len(row) for row in sizes]
    buffer["first_slice"] = np.cumsum(buffer["slices"]) - buffer["slices"]
    buffer["typical_s"] = typical / bandwidth
    limit = new_record(
        LIMIT,
        fast_bytes=target.fast_bytes,
        alignment=target.alignment,
        prefetches=target.max_prefetches if options.max_prefetches is None else options.max_prefetches,
        write_backs=target.max_write_backs if options.max_write_backs is None else options.max_write_backs,
        retries=options.retries,
        repacks=options.repacks,
        slice_min_bytes=options.slice_min_bytes,
        end=times.end,
        last_instruction=program.schedule_index[-1],
        is_flat=not nest.any(),
        longest_s=target.fast_bytes / bandwidth * options.max_overlap,
        least_overlap=options.min_overlap,
        preferred_overlap=options.preferred_overlap,
        inefficient_ratio=options.inefficient_ratio,
    )
    reserved = np.zeros(len(nest), np.int64)
    reserved[program.schedule_index] = program.reserved
    problem = Problem(
        elapsed=elapsed,
        nest=nest,
        outside=_outside(repeated),
        weight=weight,
        reserved=reserved,
        supply=_supply(program, times),
        buffer=buffer,
        value=rows.value,
        use=rows.use.copy(),  # the loop optimiser writes its modes there
        moment=rows.moment,
        preferred_time=np.full(len(rows.use), NEVER, np.int64),
        copies=copies,
        slice_bytes=np.array([size for row in sizes for size in row], np.int64),
        limit=limit,
    )
    return problem, rows.accesses


@lru_cache(maxsize=KEPT)
def _buffers(program: Program, target: Target) -> tuple[NDArray[np.void], NDArray[np.int64]]:
    """Returns the rows of buffers, with what does not depend on options, and `Problem.copies`."""
    rows = _rows(program, target)
    buffer = np.zeros(program.num_buffers, BUFFER)
    buffer["first_value"], buffer["end_value"] = rows.spans.T
    buffer["first_moment"], buffer["end_moment"] = rows.moments.T
    buffer["bytes"] = program.fast_size
    return buffer, _copies(program, rows, buffer)


def _copies(program: Program, rows: Rows, buffer: NDArray[np.void]) -> NDArray[np.int64]:
    """Notes in `buffer` which copies an asynchronous one may replace; returns `Problem.copies`.

    XLA: `IsAsyncConversionCandidate`. What the copy reads and what it makes must be the first values of their buffers,
    and what it makes may not be a result of its computation.
    """
    buffer["copied_from"], buffer["copy_use"], buffer["passed"] = -1, -1, np.iinfo(np.int32).max
    facts = assignment_facts(program)
    if facts is None:
        # A result among others is first an element of a tuple: no copy of it is in time.
        for access, path in enumerate(program.access_path):
            if program.access_kind[access] == RESULT and path != "{}":
                buffer["passed"][program.access_buffer[access]] = 0
    else:
        buffer["passed"][list(facts.passed)] = list(facts.passed.values())
    made_of: dict[int, list[int]] = {}
    first_use, end_use = rows.value["first_use"], rows.value["end_use"]
    is_linked = np.zeros(len(rows.use), bool)
    is_linked[rows.accesses.links[:, 0]] = True
    use_of = {access: use for use, access in rows.accesses.links.tolist()}
    for t in np.flatnonzero(np.array(program.opcodes) == "copy").tolist():
        pair = replaced_pair(program, t) if program.keeps_layout is not None else None
        if pair is None:
            continue
        source, made = pair
        use = use_of.get(int(program.access_start[t]), -1)
        value, origin = int(rows.spans[made, 0]), int(rows.spans[source, 0])
        if value == rows.spans[made, 1] or origin == rows.spans[source, 1] or program.definition[made] != t:
            continue
        uses = np.arange(first_use[value], end_use[value])
        returned = ~is_linked[uses] & (rows.use["entered"][uses] < 0)
        if not first_use[origin] <= use < end_use[origin] or not len(uses) or returned.any():
            continue
        if (rows.use["held_since"][uses] >= 0).any():
            continue
        buffer["copied_from"][made], buffer["copy_use"][made] = source, use
        made_of.setdefault(source, []).append(made)
    # What such a copy makes is not what another of them reads.
    for made in [made for made in np.flatnonzero(buffer["copied_from"] >= 0).tolist() if made in made_of]:
        for other in made_of.pop(made):
            buffer["copied_from"][other] = buffer["copy_use"][other] = -1
    copies: list[int] = []
    for source, found in made_of.items():
        buffer["first_copy"][source] = len(copies)
        copies += sorted(
            (made for made in found if buffer["copied_from"][made] >= 0), key=lambda b: program.definition[b]
        )
        buffer["end_copy"][source] = len(copies)
    return np.array(copies, np.int64)


def _supply(program: Program, times: Times) -> NDArray[np.int64]:
    """Returns `[S]` scaled seconds for which each time lets copies move."""
    seconds = times.seconds.astype(np.float32).astype(np.float64)
    facts = assignment_facts(program)
    for time, share in [] if facts is None else facts.supply:
        seconds[time:] = times.seconds[time:].astype(np.float32) * np.float32(share)
    return (seconds * SCALE).astype(np.int64)


def _outside(nest: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns `[S]` the next time with fewer loops around it than each has, or `S` where none follows."""
    found = np.full(len(nest), len(nest), np.int64)
    times = np.arange(len(nest))
    for level in range(1, int(nest.max(initial=0)) + 1):
        below = np.flatnonzero(nest < level)
        at = times[nest == level]
        found[at] = np.append(below, len(nest))[np.searchsorted(below, at)]
    return found


@lru_cache(maxsize=KEPT)
def _rows(program: Program, target: Target) -> Rows:
    return Rows(program, target, schedule(program, target), _loop_times(program, target))


def _loop_times(program: Program, target: Target) -> LoopTimes:
    return loop_times(program, assignment_facts(program), schedule(program, target).end)
