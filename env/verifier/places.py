"""Checks what lies in fast memory, and where: alignment, capacity, overlaps, bytes that instructions reserve.

Residencies are arrays `[R, 7]`: rows of `Mapping.residencies`, with `low..high` as the bytes that they take in fast
memory (`extents`), then the number of the row.
"""

import heapq
from bisect import bisect_left

import numpy as np
from numpy.typing import NDArray

from ..program.mapping import WRITE_BACK
from ..program.program import OPERAND, Program
from ..program.target import Target
from .violation import Kind, Report


def check_places(program: Program, target: Target, residencies: NDArray[np.int64], report: Report) -> None:
    """Reports offsets that are misaligned, bytes beyond fast memory, and buffers that must not live there."""
    buffer, start, offset, low, high = residencies[:, [0, 1, 3, 4, 5]].T
    for row in np.flatnonzero(offset % target.alignment):
        report.add(
            Kind.ALIGNMENT,
            f"{report.residency(residencies[row])} is at offset {offset[row]}, which is not a multiple of "
            f"{target.alignment}.",
            start[row],
            buffer[row],
        )
    # No sum with an offset, here or below: an offset can be any integer, and a sum would wrap around.
    for row in np.flatnonzero((offset < -low) | (offset > target.fast_bytes - high)):
        begins, ends = (int(offset[row]) + int(byte[row]) for byte in (low, high))
        report.add(
            Kind.CAPACITY,
            f"{report.residency(residencies[row])} takes bytes {begins}..{ends} of a fast memory of "
            f"{target.fast_bytes}.",
            start[row],
            buffer[row],
        )
    for row in np.flatnonzero(~program.fast_allowed[buffer]):
        report.add(
            Kind.FAST_FORBIDDEN,
            f"{report.residency(residencies[row])} is in fast memory, where this buffer must not be.",
            start[row],
            buffer[row],
        )


def check_hbm_accesses(program: Program, access_fast: NDArray[np.bool_], report: Report) -> None:
    """Reports accesses to fast memory of what their instructions always have in HBM."""
    if program.hbm_accesses is None:
        return
    for access in np.flatnonzero(program.hbm_accesses & access_fast).tolist():
        t, buffer = int(program.access_instruction[access]), int(program.access_buffer[access])
        instruction, name = report.instruction(t), report.buffer(buffer)
        if program.access_kind[access] == OPERAND:
            words = f"{instruction} reads {name} from fast memory, and can only read it from HBM."
            report.add(Kind.HBM_OPERAND, words, t, buffer)
        else:
            words = f"{instruction} writes {name} to fast memory, and can only write it to HBM."
            report.add(Kind.HBM_RESULT, words, t, buffer)


def check_overlaps(residencies: NDArray[np.int64], report: Report) -> None:
    """Reports residencies that hold the same bytes at the same time.

    Sweeps over time with the bytes in use in ascending order; a residency that overlaps is reported and not entered.
    """
    lows: list[int] = []  # first bytes of the active residencies, ascending; these are disjoint
    active: list[tuple[int, int]] = []  # their last bytes, exclusive, and row numbers
    leaving: list[tuple[int, int]] = []  # heap of their last instructions and first bytes
    rows = residencies.tolist()
    for row in np.argsort(residencies[:, 1], kind="stable").tolist():
        buffer, start, end, offset, low, high, _ = rows[row]
        while leaving and leaving[0][0] < start:
            index = bisect_left(lows, heapq.heappop(leaving)[1])
            del lows[index], active[index]
        index = bisect_left(lows, offset + low)
        other = None
        if index > 0 and active[index - 1][0] > offset + low:
            other = active[index - 1][1]
        elif index < len(lows) and lows[index] < offset + high:
            other = active[index][1]
        if other is not None:
            taken = rows[other]
            report.add(
                Kind.OVERLAP,
                f"{report.residency(residencies[row])} at bytes {offset + low}..{offset + high} of fast memory "
                f"overlaps {report.residency(residencies[other])} at bytes {taken[3] + taken[4]}.."
                f"{taken[3] + taken[5]}.",
                start,
                buffer,
            )
            continue
        lows.insert(index, offset + low)
        active.insert(index, (offset + high, row))
        heapq.heappush(leaving, (end, offset + low))


def check_entries(program: Program, residencies: NDArray[np.int64], copies: NDArray[np.int64], report: Report) -> None:
    """Reports prefetches that fill bytes right before a conditional which another buffer takes into a branch.

    What is there before a conditional is there at the start of each branch. A prefetch that is issued and complete
    right before it writes at that very moment, although its residency begins with the first branch.
    """
    for loop in [] if program.conditional is None else np.flatnonzero(program.conditional).tolist():
        first = int(program.loop_first[loop])
        branches = program.loop_first[program.loop_parent == loop].tolist()
        start, end = residencies[:, 1], residencies[:, 2]
        before = residencies[(start < first) & (first - 1 <= end)]
        taken = [row for t in branches for row in residencies[(start <= t) & (t <= end)].tolist()]
        kept = [row for row in before.tolist() if any(other[:1] + other[3:4] == row[:1] + row[3:4] for other in taken)]
        now = (copies[:, 1] != WRITE_BACK) & (copies[:, 2] == first - 1) & (copies[:, 3] == first)
        for copy in copies[now]:
            for filled in residencies[(residencies[:, 0] == copy[0]) & (start == first)].tolist():
                low, high = filled[3] + max(filled[4], int(copy[4])), filled[3] + min(filled[5], int(copy[5]))
                other = next((o for o in kept if low < o[3] + o[5] and o[3] + o[4] < high), None)
                if other is None or low >= high:
                    continue
                report.add(
                    Kind.OVERLAP,
                    f"{report.copy_row(copy)} fills bytes {low}..{high} of fast memory, where a branch finds "
                    f"{report.buffer(other[0])}.",
                    first,
                    int(copy[0]),
                )


def check_scoped(program: Program, residencies: NDArray[np.int64], report: Report) -> None:
    """Reports residencies in bytes that an instruction reserves for itself (scoped memory).

    The largest reservation while a residency lasts comes from a sparse table over windows of `2^k` instructions.
    """
    if not program.reserved.any() or not len(residencies):
        return
    levels = [program.reserved]
    while 2 ** len(levels) <= program.num_instructions:
        half = 2 ** (len(levels) - 1)
        levels.append(np.maximum(levels[-1][:-half], levels[-1][half:]))
    buffer, start, end, offset, low, high = residencies[:, :6].T
    power = np.frexp(end - start + 1)[1] - 1
    largest = np.zeros(len(residencies), np.int64)
    for level, table in enumerate(levels):
        rows = np.flatnonzero(power == level)
        largest[rows] = np.maximum(table[start[rows]], table[end[rows] - 2**level + 1])
    for row in np.flatnonzero((offset < largest - low) & (offset > -high) & (largest > 0)):
        window = program.reserved[start[row] : end[row] + 1]
        t = int(start[row] + np.flatnonzero(window > offset[row] + low[row])[0])
        report.add(
            Kind.SCOPED,
            f"{report.residency(residencies[row])} starts at byte {offset[row] + low[row]} of fast memory, of which "
            f"{report.instruction(t)} reserves the first {program.reserved[t]}.",
            t,
            buffer[row],
        )
