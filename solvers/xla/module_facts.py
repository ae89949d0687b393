"""Facts of the compiler's module that a program file does not hold: typical size, slices, results fit for fast memory.

They come from the compiler's log or from the mappings in the program file; where neither has them, they are guessed.
"""

import math
from collections import defaultdict
from functools import lru_cache

import numpy as np

from ...env.program.assignment_facts import assignment_facts
from ...env.program.mapping import CROSS_PROGRAM, PREFETCH
from ...env.program.program import Program
from .cost_analysis import bandwidths
from .options import KEPT, Options

# Of the log's seconds, and of the bandwidths of targets whose exact ones are not known.
_DIGITS = 1e-4
_TILE = 4096  # bytes; slices end at multiples of it


def typical_bytes(program: Program) -> int:
    """Returns the logged typical size of a program, or a guess: the 90th percentile of the bytes of its accesses."""
    known = logged_typical_bytes(program)
    if known is not None:
        return known
    sizes = program.access_bytes[program.fast_allowed[program.access_buffer]]
    return max(1, int(np.quantile(sizes, 0.9))) if len(sizes) else 1


def logged_typical_bytes(program: Program) -> int | None:
    """Returns the typical size from the compiler's log, or None.

    XLA picks the starts of all copies in a program by the seconds that a buffer of one typical size takes, not the
    buffer at hand (`CostAnalysisPrefetchIntervalPicker`, `size_override`). The log has these seconds to six digits; the
    size is taken to be as round, in powers of two, as they allow.
    """
    facts = assignment_facts(program)
    if facts is None or facts.typical_copy_s is None:
        return None
    found = facts.typical_copy_s * bandwidths(program.target)[0]
    low, high = math.ceil(found * (1 - _DIGITS)), math.floor(found * (1 + _DIGITS))
    step = 1
    while high // (2 * step) * 2 * step >= low:
        step *= 2
    return max(1, high // step * step)


def slice_sizes(program: Program, options: Options) -> list[tuple[int, ...]]:
    """Returns for each buffer the sizes of its slices, lowest bytes first, none if not cut (XLA: `SliceProposer`).

    The compiler cuts along the outermost dimension that is long enough. That follows from the shape, which a program
    file does not hold. Slices are therefore those of the compiler's log, or are read off the mappings in the file, for
    all buffers of the same size; a buffer that these prefetch and never cut is not cut. Other buffers are cut into
    equal parts, the most frequent case.
    """
    sizes: list[tuple[int, ...]] = [()] * program.num_buffers
    if options.max_slices < 2:
        return sizes
    known, whole = _seen(program)
    facts = assignment_facts(program)
    logged = {} if facts is None else facts.slices
    size_of = program.size.tolist()
    if facts is not None:
        known, whole = known | {size_of[buffer]: parts for buffer, parts in logged.items() if parts}, set()
    for buffer in np.flatnonzero(program.fast_allowed & (program.size >= options.slice_min_bytes)).tolist():
        size = size_of[buffer]
        if program.is_split[buffer]:
            continue
        cut = logged.get(buffer)
        sizes[buffer] = _sizes(size, options, known.get(size), buffer in whole) if cut is None else cut
    return sizes


def _sizes(size: int, options: Options, seen: tuple[int, ...] | None, whole: bool) -> tuple[int, ...]:
    """Returns the slices of a buffer: none if `whole`, those `seen` in a mapping, else equal parts."""
    part = options.slice_bytes
    if part > 0:
        return (*[part] * (size // part), *([size % part] if size % part else [])) if size > part else ()
    if whole:
        return ()
    if seen is not None:
        return seen
    part = -(-size // (options.max_slices * _TILE)) * _TILE
    parts = [part] * (size // part) + ([size % part] if size % part else [])
    return tuple(parts) if len(parts) > 1 else ()


@lru_cache(maxsize=KEPT)
def _seen(program: Program) -> tuple[dict[int, tuple[int, ...]], set[int]]:
    """Returns the slices by size of a buffer that the mappings in the program file show, and the buffers not to be cut.

    Those are the buffers that are prefetched and never cut, and all others of a size of which none is cut.
    """
    known: dict[int, tuple[int, ...]] = {}
    cut: set[int] = set()
    whole: set[int] = set()
    mappings = [program.production, *(variant.mapping for variant in program.variants)]
    for mapping in mappings:
        if mapping is None:
            continue
        parts: dict[tuple[int, int], set[tuple[int, int]]] = defaultdict(set)
        for buffer, direction, _, end, low, high, *_ in mapping.copies.tolist():
            if direction == PREFETCH and direction != CROSS_PROGRAM:
                parts[buffer, end].add((low, high))
        for (buffer, _), ranges in parts.items():
            size = int(program.size[buffer])
            if len(ranges) > 1:
                known[size] = tuple(high - low for low, high in sorted(ranges))
                cut.add(buffer)
            else:
                whole.add(buffer)
    sizes = {int(program.size[buffer]) for buffer in whole} - set(known)
    alike = {buffer for buffer, size in enumerate(program.size.tolist()) if size in sizes}
    return known, (whole - cut) | alike
