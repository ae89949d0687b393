"""Repair of mappings that are illegal because XLA's notion of a loop is not a program's."""

from collections import Counter

import numpy as np

from ...env.program.mapping import Mapping
from ...env.program.program import Program
from ...env.program.residencies import fit_to_loops
from ...env.program.target import Target
from ...env.verifier.verify import verify


def legal(program: Program, target: Target, mapping: Mapping) -> Mapping:
    """Returns a mapping without violations, in which buffers that break a rule stay in HBM.

    XLA may evict a loop-carried value in the middle of a body and bring it back at the next iteration; here a mapping
    holds it over the whole loop, where it fits.
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
    """Returns a mapping with some buffers in HBM."""
    out = np.array(sorted(buffers))
    copies = mapping.copies
    return Mapping(
        mapping.program_sha256,
        mapping.access_fast & ~np.isin(program.access_buffer, out),
        mapping.residencies[~np.isin(mapping.residencies[:, 0], out)],
        copies[~(np.isin(copies[:, 0], out) | np.isin(copies[:, 6], out))],
        mapping.origin,
    )
