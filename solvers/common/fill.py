"""Fills the memory that a mapping leaves free with buffers that it keeps in HBM throughout.

An added buffer has no copies: the program itself writes it, and it need not end in HBM, so it stays in fast memory from
its first write to its last use. No other buffer moves, and no instruction waits longer.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...env.compiled.kernel import kernel
from ...env.compiled.sorting import sort_rows
from ...env.compiled.struct import Rows, Struct, new_record, one, rows
from ...env.packing.repack import repack
from ...env.physics.objective import Judge
from ...env.program.extents import extents
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
    aligned = target.align(program.fast_size)
    wanted = untouched & program.fast_allowed & ~program.is_output & (program.definition >= 0) & (weight > 0)
    wanted[program.access_buffer[~program.access_allowed]] = False
    wanted &= (first >= 0) & (program.size > 0) & ~_in_loops(program, first, last)
    replaced = np.unique(mapping.copies[mapping.copies[:, 7] >= 0, 7])
    wanted[program.access_buffer[np.isin(program.access_instruction, replaced)]] = False
    # Most bytes moved per byte and instruction held first.
    density = weight / (np.maximum(aligned, 1) * (last - first + 1.0))
    order = np.flatnonzero(wanted)
    order = order[np.argsort(-density[order], kind="stable")]
    taken, most = extents(program, mapping.residencies), len(mapping.residencies) + len(order)
    room = _Room(
        span=np.zeros(most, _SPAN),
        buffer=np.zeros(len(order), _BUFFER),
        reserved=program.reserved.astype(np.int64),
        limits=new_record(_LIMITS, taken=len(taken), fast_bytes=target.fast_bytes, alignment=target.alignment),
        **{name: np.zeros(most, np.int64) for name in ("meets", "key", "order", "spare")},
    )
    span = room.span[: len(taken)]
    span["first"], span["last"] = taken[:, 1], taken[:, 2]
    span["low"], span["high"] = taken[:, 3] + taken[:, 4], taken[:, 3] + taken[:, 5]
    room.buffer["first"], room.buffer["last"] = first[order], last[order]
    room.buffer["size"] = program.fast_size[order]
    _place(room)
    offsets = room.buffer["offset"]
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
    """Packs a mapping anew, lowest peak first, so that the free memory is in one piece, and fills it; returns `mapping`
    itself if the result is no better. Takes up to a few seconds."""
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


_SPAN = np.dtype([(name, np.int64) for name in ("first", "last", "low", "high")])
_BUFFER = np.dtype([(name, np.int64) for name in ("first", "last", "size", "offset")])
_LIMITS = np.dtype([(name, np.int64) for name in ("taken", "fast_bytes", "alignment")])


class _Room(Struct):
    """Fast memory with residencies in it, and buffers to place. Shapes: `C` residencies, `K` buffers, `T` instructions.

    Attributes:
      span: `[C + K]` instructions and bytes of the residencies; buffers that have been placed follow.
      buffer: `[K]` first and last instruction, bytes, and the offset found, or -1.
      reserved: `[T]` bytes at offset 0 that each instruction reserves.
      meets: `[C + K]` the residencies in the way of one buffer.
      key, order, spare: `[C + K]` for sorting.
      limits: the number of spans, bytes of fast memory, the alignment of offsets.
    """

    span: Rows = rows(_SPAN)
    buffer: Rows = rows(_BUFFER)
    reserved: NDArray[np.int64] = rows(np.int64)
    meets: NDArray[np.int64] = rows(np.int64)
    key: NDArray[np.int64] = rows(np.int64)
    order: NDArray[np.int64] = rows(np.int64)
    spare: NDArray[np.int64] = rows(np.int64)
    limits: Any = one(_LIMITS)


@kernel(_Room)
def _place(room: _Room) -> None:
    """Finds the tightest offset for each buffer in turn."""
    span, limits = room.span, room.limits
    alignment = limits.alignment
    for k in range(len(room.buffer)):
        buffer = room.buffer[k]
        buffer.offset = -1
        floor = 0
        for t in range(buffer.first, buffer.last + 1):
            floor = max(floor, room.reserved[t])
        meets = 0
        for row in range(limits.taken):
            if span[row].first <= buffer.last and buffer.first <= span[row].last:
                room.meets[meets] = row
                room.key[meets] = span[row].low
                meets += 1
        sort_rows(room.key, room.order, room.spare, meets)
        edge = -(-floor // alignment) * alignment
        best, best_gap = -1, 2**62
        for j in range(meets):
            row = room.meets[room.order[j]]
            gap = span[row].low - edge
            if gap >= buffer.size and gap < best_gap:
                best, best_gap = edge, gap
            edge = max(edge, -(-span[row].high // alignment) * alignment)
        if limits.fast_bytes - edge >= buffer.size and limits.fast_bytes - edge < best_gap:
            best = edge
        if best >= 0:
            buffer.offset = best
            placed = span[limits.taken]
            placed.first = buffer.first
            placed.last = buffer.last
            placed.low = best
            placed.high = best + buffer.size
            limits.taken += 1
