"""What a mapping requires of the compiler, and the first encodings that ask for it."""

import itertools
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ..env.program.extents import extents
from ..env.program.mapping import COPY_FIELDS, CROSS_PROGRAM, PREFETCH, RESIDENCY_FIELDS, Mapping
from ..env.program.program import OPERAND, Program
from ..solvers.order.flags import Flags
from .encoding import Codec, Encoding


class Wanted:
    """A mapping, taken apart into what options can express.

    Shapes: `N` buffers, `A` accesses, `W` uses by loops (`Decoder.by_loops`).

    Attributes:
      mapping: the mapping.
      starts: `[A + W]` the instruction after which the prefetch for an access, or for a use by a loop, starts, or -1.
      kept_buffers: `[N]` whether a buffer stays in HBM.
      kept_reads: `[A]` whether a read of another buffer is served from HBM.
      kept_values: `[N]` how many values of another buffer stay in HBM, from the first one on (`Codec.keepable_values`).
      cross: the input to prefetch across programs, if an option can, and if it is not the compiler's own choice.
      reads_alone: `[A]` the `kept_reads` that force no result into HBM that the mapping has in fast memory.
    """

    def __init__(self, codec: Codec, mapping: Mapping) -> None:
        """Takes a mapping of the codec's program apart."""
        self._codec, self.mapping = codec, mapping
        self.starts = prefetch_starts(codec, mapping)
        self.kept_buffers, self.kept_reads, self.reads_alone = codec.keeps(mapping)
        self.kept_values = codec.values_kept(mapping)
        across = mapping.copies[mapping.copies[:, COPY_FIELDS.index("direction")] == CROSS_PROGRAM, 0]
        self._crossing = len(across) > 0
        self.cross = codec.across(across[:1].tolist())

    def likely_flags(self) -> Flags:
        """Returns the flags to begin with: the compiler's own, but an input is prefetched across programs only if the
        mapping prefetches one."""
        return Flags(cross_program=self._crossing)

    def encodings(self, flags: Flags) -> Iterator[Encoding]:
        """Yields encodings of every order: with and without starts; with nothing, buffers, or also first values or
        reads kept in HBM; with the inputs across programs, and the memories of kernels' arrays, of the mapping or of
        the compiler."""
        no_start = np.full(len(self.starts), -1)
        no_buffer, no_read = np.zeros_like(self.kept_buffers), np.zeros_like(self.kept_reads)
        no_value = np.zeros_like(self.kept_values)
        keeps = (
            (no_buffer, no_read, no_value),
            (self.kept_buffers, no_read, no_value),
            *([(self.kept_buffers, no_read, self.kept_values)] if self.kept_values.any() else []),
            (self.kept_buffers, self.reads_alone, self.kept_values),
            (self.kept_buffers, self.kept_reads, self.kept_values),
        )
        crosses = dict.fromkeys((self.cross if flags.cross_program else (), ()))
        access = self._codec.arrays.access
        colored = self._codec.colored(self._codec.default(), access, self.mapping.access_fast[access]).colors
        colors = (None,) if colored is None else (colored, None)
        for number, order in enumerate(self._orders(self._codec.decoder(flags).order())):
            for starts in (no_start, self.starts):
                for (buffers, reads, values), cross, color in itertools.product(keeps, crosses, colors):
                    yield Encoding(order, starts, buffers, reads, values, flags, number == 0, cross, color)

    def _orders(self, own: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """Yields the compiler's own order, and three orders that put first the buffers that the mapping keeps fast.

        The three sort these buffers by the compiler's order, by fast bytes per byte-second held, and by byte-seconds.
        """
        yield own
        own = self._codec.told(own)
        program, mapping = self._codec.program, self.mapping
        served = np.zeros(program.num_buffers)
        fast = np.flatnonzero(mapping.access_fast)
        weight = program.weight[program.access_instruction[fast]]
        np.add.at(served, program.access_buffer[fast], program.access_bytes[fast] * weight)
        elapsed = np.concatenate([[0.0], np.cumsum(program.compute_s * program.weight)])
        held = np.zeros(program.num_buffers)
        for row in extents(program, mapping.residencies).tolist():
            of = dict(zip(RESIDENCY_FIELDS, row, strict=True))
            held[of["buffer"]] += (of["high"] - of["low"]) * (elapsed[of["end"] + 1] - elapsed[of["start"]])
        left_out = served[own] == 0.0
        density = served / np.maximum(held, 1e-30)
        yield own[np.argsort(left_out, kind="stable")]
        yield own[np.lexsort((-density[own], left_out))]
        yield own[np.lexsort((-held[own], left_out))]


def prefetch_starts(codec: Codec, mapping: Mapping) -> NDArray[np.int64]:
    """Returns `[A + W]` the instruction after which a prefetch of a mapping starts, or -1.

    A prefetch serves the first read of its buffer from fast memory once it is done. If it starts before a loop around
    this read, it serves the use by that loop; of several loops, by the outermost. Of several slices the first counts.
    """
    program, first = codec.program, codec.program.num_accesses
    found = np.full(len(codec.started), -1, np.int64)
    place = {use: at for at, use in enumerate(map(tuple, codec.by_loops.tolist()), first) if codec.startable[at]}
    reads = mapping.access_fast & (program.access_kind == OPERAND)
    for copy in mapping.copies.tolist():
        row = dict(zip(COPY_FIELDS, copy, strict=True))
        if row["direction"] != PREFETCH:
            continue
        served = np.flatnonzero(
            reads & (program.access_buffer == row["buffer"]) & (program.access_instruction >= row["end"])
        )
        if len(served):
            start = max(0, row["start"])
            loop = _entered(program, start, int(program.access_instruction[served[0]]))
            at = place.get((loop, row["buffer"]), int(served[0]))
            found[at] = start if found[at] < 0 else min(found[at], start)
    return found


def _entered(program: Program, start: int, end: int) -> int:
    """Returns the outermost loop that holds an instruction and not an earlier one, or -1."""
    loop, entered = int(program.loop[end]), -1
    while loop >= 0 and not program.loop_first[loop] <= start <= program.loop_last[loop]:
        loop, entered = int(program.loop_parent[loop]), loop
    return entered
