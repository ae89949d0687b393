"""Makes mappings legal where XLA's notion of a loop and ours differ."""

from collections import Counter

import numpy as np

from ...env.program.residencies import fit_to_loops
from ...env.program.mapping import Mapping
from ...env.program.program import Program
from ...env.program.target import Target
from ...env.verifier.verify import verify


def legal(program: Program, target: Target, mapping: Mapping) -> Mapping:
    """Returns a mapping without violations: buffers that break a rule stay in HBM.

    XLA lets a loop-carried value leave fast memory in the middle of a body and come back at the next iteration; a
    mapping holds it over the whole loop, where there is room.
    """
    used = set(
        zip(
            program.access_buffer[mapping.access_fast].tolist(),
            program.access_instruction[mapping.access_fast].tolist(),
            strict=True,
        )
    )
    rows = fit_to_loops(mapping.residencies, program, Counter(), used)
    mapping = Mapping(mapping.program_sha256, mapping.access_fast, rows, mapping.copies, mapping.origin)
    while True:
        guilty = {v.buffer for v in verify(program, target, mapping) if v.buffer is not None}
        if not guilty:
            return mapping
        mapping = _without(program, mapping, guilty)


def _without(program: Program, mapping: Mapping, buffers: set[int]) -> Mapping:
    out = np.array(sorted(buffers))
    copies = mapping.copies
    return Mapping(
        mapping.program_sha256,
        mapping.access_fast & ~np.isin(program.access_buffer, out),
        mapping.residencies[~np.isin(mapping.residencies[:, 0], out)],
        copies[~(np.isin(copies[:, 0], out) | np.isin(copies[:, 6], out))],
        mapping.origin,
    )
