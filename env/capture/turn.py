"""Moves the offsets of a mapping so that reserved bytes begin at offset 0, as they do in a `Program`.

XLA places the buffer of a cross-program prefetch at offset 0 before it reserves anything. While that buffer stays, the
bytes that instructions reserve for themselves (scoped memory) begin at its end. Neither end of fast memory is special,
so all offsets may be turned round by that much: the reserved bytes move to offset 0, the buffer to the end. Where bytes
are reserved at several offsets, because the buffer leaves in between or XLA has moved them, all buffers are packed
anew. Offsets alone cost no time in any model.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ..packing.repack import repack
from ..program.extents import extents
from ..program.mapping import Mapping
from ..program.program import Program

_OFFSET, _LOW, _HIGH = 3, 4, 5
# Further ends are not tried: they belong to buffers that took the place later.
_MOST = 4
# Of the exact packer: the orders that come before it suffice for most.
_PACKER_NODES = 20_000


def moved_mappings(program: Program, mapping: Mapping) -> Iterator[Mapping]:
    """Yields the mapping at other offsets: turned, then packed anew. The verifier has to judge what is turned."""
    yield from turned_mappings(program, mapping)
    packed = repack(program, mapping, seconds=None, nodes=_PACKER_NODES).mapping
    if packed is not None:
        yield packed


def turned_mappings(program: Program, mapping: Mapping) -> Iterator[Mapping]:
    """Yields the mapping turned by the ends of the residencies that begin at offset 0, the longest residency first.

    Nothing is turned, and nothing yielded, where no instruction reserves bytes. Whether a turned mapping breaks a rule
    is for the verifier to decide: it does where bytes lie on both sides of that end.
    """
    if not program.reserved.any() or not len(mapping.residencies):
        return
    rows, taken = mapping.residencies, extents(program, mapping.residencies)
    low, high = taken[:, _OFFSET] + taken[:, _LOW], taken[:, _OFFSET] + taken[:, _HIGH]
    lasting = rows[:, 2] - rows[:, 1]
    at_the_bottom = np.flatnonzero(low == 0)
    alignment, fast_bytes = program.target.alignment, program.target.fast_bytes
    ends: dict[int, None] = {}
    for row in at_the_bottom[np.argsort(-lasting[at_the_bottom], kind="stable")]:
        ends[-(-int(high[row]) // alignment) * alignment] = None
    for end in list(ends)[:_MOST]:
        turned = rows.copy()
        turned[:, _OFFSET] += np.where(low >= end, -end, fast_bytes - end)
        yield replace(mapping, residencies=turned)
