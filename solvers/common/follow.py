"""Plans and hints with which a game follows a mapping."""

import numpy as np
from numpy.typing import NDArray

from ...env.game.rules import COPY, DROP, NO_COPY
from ...env.game.state import NEVER
from ...env.program.mapping import CROSS_PROGRAM, PREFETCH, WRITE_BACK, Mapping
from ...env.program.program import OPERAND, RESULT, Program
from .plan import CROSS_PROGRAM_FETCH, WAIT
from .task import Plan


def plan_of_mapping(program: Program, mapping: Mapping) -> Plan:
    """Returns the plan `[A]` that preferences for every access what a mapping does, waiting as long as need be."""
    fast, kind = mapping.access_fast, program.access_kind
    plan = np.where(fast, np.where(kind == OPERAND, WAIT, NO_COPY), DROP).astype(np.int8)
    written_back = {(row[0], row[2]) for row in mapping.copies.tolist() if row[1] == WRITE_BACK}
    for access in np.flatnonzero(fast & (kind != OPERAND)).tolist():
        if (int(program.access_buffer[access]), int(program.access_instruction[access])) in written_back:
            plan[access] = COPY
    for buffer in mapping.copies[mapping.copies[:, 1] == CROSS_PROGRAM, 0].tolist():
        reads = np.flatnonzero(fast & (program.access_buffer == buffer) & (kind == OPERAND))
        plan[reads[:1]] = CROSS_PROGRAM_FETCH
    return plan


def hints_of_mapping(program: Program, mapping: Mapping) -> NDArray[np.int64]:
    """Returns `[A, 3]` the hints with which games follow a mapping, columns as `HINTS`: at each access the offset at
    which the mapping serves it from fast memory, or -1; the instruction right after which it issues the prefetch that
    serves it, of one cut into slices the first; and the one before which it has written back what the access leaves.
    `NEVER` for no copy."""
    return np.stack([_offsets(program, mapping), *_copies(program, mapping)], axis=1)


def without_times(hints: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns hints `[A, 3]` at the same offsets, with the times of copies left to the game."""
    left = np.full_like(hints, NEVER)
    left[:, 0] = hints[:, 0]
    return left


def _offsets(program: Program, mapping: Mapping) -> NDArray[np.int64]:
    """Returns `[A]` the offset at which a mapping serves each access from fast memory, or -1."""
    offsets = np.full(program.num_accesses, -1, np.int64)
    whole = mapping.residencies[mapping.residencies[:, 4] == 0]  # of slices, the first
    order = np.lexsort((whole[:, 1], whole[:, 0]))
    buffer, start, end, offset = whole[order][:, :4].T
    # The last residency of the buffer that begins no later than the access.
    span = program.num_instructions + 2
    place = (
        np.searchsorted(
            buffer * span + start + 1, program.access_buffer * span + program.access_instruction + 1, "right"
        )
        - 1
    )
    for access in np.flatnonzero(mapping.access_fast & (place >= 0)).tolist():
        row = place[access]
        if buffer[row] == program.access_buffer[access] and program.access_instruction[access] <= end[row]:
            offsets[access] = offset[row]
    return offsets


def _copies(program: Program, mapping: Mapping) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns `[A]` when the prefetch for each access is issued, and `[A]` when the write-back after it is due."""
    issued, due = (np.full(program.num_accesses, NEVER, np.int64) for _ in range(2))
    span = program.num_instructions + 2
    key = program.access_buffer.astype(np.int64) * span + program.access_instruction
    buffer, direction, start, end = mapping.copies[:, :4].T
    # A prefetch serves the first access from its end on, a write-back follows the last result up to its start.
    reads = np.argsort(key, kind="stable")
    fetched = direction == PREFETCH
    place = np.searchsorted(key[reads], (buffer * span + end)[fetched])
    served = reads[np.minimum(place, len(reads) - 1)]
    known = program.access_buffer[served] == buffer[fetched]
    np.minimum.at(issued, served[known], start[fetched][known])
    writes = reads[program.access_kind[reads] == RESULT]
    out = direction == WRITE_BACK
    place = np.searchsorted(key[writes], (buffer * span + start)[out], "right") - 1
    left = writes[np.maximum(place, 0)]
    known = (place >= 0) & (program.access_buffer[left] == buffer[out])
    due[left[known]] = end[out][known]
    return issued, due
