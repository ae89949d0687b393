"""Facts about shapes and operations that a program file does not hold, as far as its mappings show them."""

from collections import defaultdict
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ...env.program.mapping import CROSS_PROGRAM, PREFETCH
from ...env.program.program import RESULT, Program
from .options import KEPT, Options

_TILE = 4096  # bytes of a tile: slices end at its multiples


def slice_sizes(program: Program, options: Options) -> NDArray[np.int64]:
    """Returns `[N, M]` the sizes of each buffer's slices, lowest first, 0 beyond the last; one column of 0 for none.

    The compiler cuts along the outermost dimension that is long enough. That is a fact about the shape and not a
    decision, so it is read off the production mapping where buffers of that size are prefetched in slices; what it
    prefetches and never cuts counts as not to be cut. Other sizes are cut into equal parts, as most are.
    """
    table = np.zeros((program.num_buffers, 1), np.int64)
    if options.max_slices < 2:
        return table
    known, whole = _seen(program)
    rows = {}
    for buffer in np.flatnonzero(program.fast_allowed & (program.size >= options.slice_min_bytes)).tolist():
        size = int(program.size[buffer])
        rows[buffer] = _sizes(size, options, known.get(size), buffer in whole)
    table = np.zeros((program.num_buffers, max((len(row) for row in rows.values()), default=0) + 1), np.int64)
    for buffer, row in rows.items():
        table[buffer, : len(row)] = row
    return table


def born_fast(program: Program) -> NDArray[np.bool_]:
    """Returns `[A]` whether a result may be written to fast memory at all.

    On v5p, two cores in one, that depends on the kind of operation, which a program does not say: there, results that
    no mapping in the program file has in fast memory count as not allowed.
    """
    allowed = program.fast_allowed[program.access_buffer]
    if program.target.name != "v5p" or program.production is None:
        return allowed
    seen = program.production.access_fast.copy()
    for variant in program.variants:
        if variant.mapping is not None:
            seen |= variant.mapping.access_fast
    return allowed & (seen | (program.access_kind != RESULT))


def _sizes(size: int, options: Options, seen: tuple[int, ...] | None, whole: bool) -> tuple[int, ...]:
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
    """Returns the slices by size that mappings in the program file show, and the buffers not to be cut.

    Those are the ones that are prefetched and never cut, and all of a size of which none is.
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
