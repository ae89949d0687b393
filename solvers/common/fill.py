"""Filling the memory that a mapping leaves free, with buffers that it keeps in HBM throughout.

An added buffer has no copies: the program itself writes it and it need not end in HBM, so it stays in fast memory from
its first write to its last use. No other buffer moves, and no instruction waits longer.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ...env.compiled.sorting import ascending
from ...env.packing.repack import repack
from ...env.physics.objective import Judge
from ...env.program.mapping import Mapping
from ...env.program.program import OPERAND, Program


def fill(judge: Judge, mapping: Mapping) -> Mapping:
    """Returns `mapping` with more buffers in fast memory if that is better, else `mapping` itself."""
    program, target = judge.program, judge.target
    first, last, weight = _lives(program)
    untouched = np.ones(program.num_buffers, bool)
    untouched[mapping.residencies[:, 0]] = False
    untouched[mapping.copies[:, 0]] = False
    untouched[mapping.copies[:, 6]] = False
    aligned = -(-program.size // target.alignment) * target.alignment
    wanted = untouched & program.fast_allowed & ~program.is_output & (program.definition >= 0) & (weight > 0)
    wanted &= (first >= 0) & (program.size > 0) & ~_in_loops(program, first, last)
    replaced = np.unique(mapping.copies[mapping.copies[:, 7] >= 0, 7])
    wanted[program.access_buffer[np.isin(program.access_instruction, replaced)]] = False
    # Most bytes moved per byte and instruction held first.
    density = weight / (np.maximum(aligned, 1) * (last - first + 1.0))
    order = np.flatnonzero(wanted)
    order = order[np.argsort(-density[order], kind="stable")]
    offsets = _place(
        mapping.residencies[:, 1:].astype(np.int64),
        order,
        first,
        last,
        aligned,
        program.size,
        program.reserved,
        target.fast_bytes,
        target.alignment,
    )
    placed = order[offsets >= 0]
    if not len(placed):
        return mapping
    rows = np.zeros((len(placed), mapping.residencies.shape[1]), np.int64)
    rows[:, 0], rows[:, 1], rows[:, 2] = placed, first[placed], last[placed]
    rows[:, 3], rows[:, 5] = offsets[offsets >= 0], program.size[placed]
    residencies = np.concatenate([mapping.residencies, rows])
    fast = mapping.access_fast | np.isin(program.access_buffer, placed)
    order = np.lexsort((residencies[:, 0], residencies[:, 1]))
    filled = Mapping(mapping.program_sha256, fast, residencies[order], mapping.copies, dict(mapping.origin))
    return filled if judge.judge(filled) < judge.judge(mapping) else mapping


def gather(judge: Judge, mapping: Mapping) -> Mapping:
    """Packs a mapping anew, lowest peak first, so that the room left is in one piece, and fills that; returns `mapping`
    itself if that does not make it better. Takes up to some seconds."""
    repacked = repack(judge.program, mapping, judge.target, seconds=0.0).mapping
    if repacked is None:
        return mapping
    filled = fill(judge, repacked)
    return filled if judge.judge(filled) < judge.judge(mapping) else mapping


def _lives(program: Program) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Returns `[N]` first and last instruction of each buffer (-1: none), and the bytes its accesses move."""
    first = np.full(program.num_buffers, program.num_instructions, np.int64)
    last = np.full(program.num_buffers, -1, np.int64)
    np.minimum.at(first, program.access_buffer, program.access_instruction)
    np.maximum.at(last, program.access_buffer, program.access_instruction)
    first[last < 0] = -1
    # A buffer that is read before anything writes it would need a prefetch.
    begins = np.full(program.num_buffers, -1)
    for access in range(program.num_accesses - 1, -1, -1):
        begins[program.access_buffer[access]] = program.access_kind[access]
    first[begins == OPERAND] = -1
    moved = program.access_bytes * program.weight[program.access_instruction]
    total = np.bincount(program.access_buffer, weights=moved, minlength=program.num_buffers)
    return first, last, total.astype(np.float64)


def _in_loops(program: Program, first: NDArray[np.int64], last: NDArray[np.int64]) -> NDArray[np.bool_]:
    """`[N]` the life overlaps a loop that it does not lie inside of, or one in which the buffer is written anew."""
    crosses = np.zeros(program.num_buffers, bool)
    for begin, end in zip(program.loop_first.tolist(), program.loop_last.tolist(), strict=True):
        inside = (begin <= first) & (last <= end)
        crosses |= ~inside & (first <= end) & (begin <= last)
    return crosses


@njit(cache=True)
def _place(
    taken: np.ndarray,
    order: np.ndarray,
    first: np.ndarray,
    last: np.ndarray,
    aligned: np.ndarray,
    size: np.ndarray,
    reserved: np.ndarray,
    fast_bytes: int,
    alignment: int,
) -> np.ndarray:
    """Returns an offset for each buffer of `order`, or -1; `taken` has start, end, offset, low, high."""
    count = len(taken)
    rows = np.empty((count + len(order), 4), np.int64)
    for row in range(count):
        rows[row, 0], rows[row, 1] = taken[row, 0], taken[row, 1]
        rows[row, 2] = taken[row, 2] + taken[row, 3]
        rows[row, 3] = taken[row, 2] + taken[row, 4]
    offsets = np.full(len(order), -1, np.int64)
    low, high = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    for k in range(len(order)):
        owner = order[k]
        floor = 0
        for t in range(first[owner], last[owner] + 1):
            floor = max(floor, reserved[t])
        meets = 0
        for row in range(count):
            if rows[row, 0] <= last[owner] and first[owner] <= rows[row, 1]:
                low[meets], high[meets] = rows[row, 2], rows[row, 3]
                meets += 1
        edge = -(-floor // alignment) * alignment
        best, best_gap = -1, 2**62
        for j in ascending(low[:meets]):
            gap = low[j] - edge
            if gap >= size[owner] and gap < best_gap:
                best, best_gap = edge, gap
            edge = max(edge, -(-high[j] // alignment) * alignment)
        if fast_bytes - edge >= size[owner] and fast_bytes - edge < best_gap:
            best = edge
        if best >= 0:
            offsets[k] = best
            rows[count, 0], rows[count, 1] = first[owner], last[owner]
            rows[count, 2], rows[count, 3] = best, best + size[owner]
            count += 1
    return offsets
