"""Finds new offsets for the residencies of a mapping; times and copies, and so the latency, do not change."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..program.extents import extents
from ..program.mapping import CROSS_PROGRAM, Mapping
from ..program.program import Program
from ..program.target import Target
from ..verifier.verify import verify
from .pack import FEASIBLE, INFEASIBLE, Packed, pack
from .problem import Packing, make_packing
from .slices import Slices, pack_slices

# Orders of slices tried when a limit of nodes, not seconds, is given.
_ROUNDS = 200


@dataclass(frozen=True, eq=False)
class Repacked:
    """A mapping with new offsets, or why there is none.

    Attributes:
      mapping: the mapping, verified; None without a solution.
      reason: the reason for None in words; empty with a mapping.
      packed: result of the packer of whole buffers; None if it was not asked.
    """

    mapping: Mapping | None
    reason: str
    packed: Packed | None


def repack(
    program: Program,
    mapping: Mapping,
    target: Target | None = None,
    seconds: float | None = 10.0,
    nodes: int | None = None,
) -> Repacked:
    """Gives the residencies of a mapping new offsets, so that no two share bytes.

    The old offsets may overlap or lie outside fast memory: they only say which residencies belong together
    (`groups`). A slice takes memory for its own bytes, from its own fetch on.

    Args:
      program: the program.
      mapping: its mapping.
      target: the hardware; None for the program's own.
      seconds, nodes: limits of the exact packer.
    """
    target = program.target if target is None else target
    group = groups(mapping, program)
    packing, exactly = packing_of(program, mapping, target, group)
    packed: Packed | None = None
    offsets = None
    if not exactly:
        rounds = None if seconds is not None and nodes is None else _ROUNDS
        offsets = pack_slices(slices_of(program, mapping, target, group), seconds, rounds)
    if offsets is None:
        packed = pack(packing, seconds, nodes)
        offsets = packed.offsets
    if offsets is None:
        assert packed is not None
        return Repacked(None, _reason(packing, packed, exactly), packed)
    residencies = mapping.residencies.copy()
    residencies[:, 3] = offsets[group]
    repacked = Mapping(mapping.program_sha256, mapping.access_fast, residencies, mapping.copies, dict(mapping.origin))
    violations = verify(program, target, repacked)
    if violations:
        return Repacked(None, f"the mapping is not legal at any offsets: {violations[0].message}", packed)
    return Repacked(repacked, "", packed)


def groups(mapping: Mapping, program: Program | None = None) -> NDArray[np.int64]:
    """Returns `[R]` the group of each residency; the residencies of a group must share an offset.

    They are of one buffer at one offset, and follow each other without a gap, overlap in time (slices), are the two
    ends of a cross-program prefetch, or hold the buffer at the beginning and at the end of a loop's body.

    Args:
      mapping: the mapping.
      program: its program; None for one without loops.
    """
    number = np.arange(len(mapping.residencies))
    crossing = {int(buffer) for buffer in mapping.copies[mapping.copies[:, 1] == CROSS_PROGRAM, 0]}
    last: dict[tuple[int, int], tuple[int, int]] = {}
    first: dict[tuple[int, int], int] = {}
    for row in np.argsort(mapping.residencies[:, 1], kind="stable").tolist():
        buffer, start, end, offset = (int(x) for x in mapping.residencies[row, :4])
        key = (buffer, offset)
        first.setdefault(key, row)
        if key in last and start <= last[key][1] + 1:
            number[row] = last[key][0]
            end = max(end, last[key][1])
        last[key] = (int(number[row]), end)
    for key, (tail, _) in last.items():
        if key[0] in crossing:
            number[number == tail] = number[first[key]]
    if program is not None:
        _join_over_loops(mapping, program, number)
    return np.unique(number, return_inverse=True)[1].astype(np.int64).reshape(-1)


def _join_over_loops(mapping: Mapping, program: Program, number: NDArray[np.int64]) -> None:
    """Gives what holds a buffer at the beginning and at the end of a loop's body, at one offset, one number."""
    buffers, starts, ends, offsets = mapping.residencies[:, :4].T
    for begin, end in zip(program.loop_first.tolist(), program.loop_last.tolist(), strict=True):
        rows = np.flatnonzero((starts <= end) & (end <= ends)).tolist()
        at_end = {(int(buffers[row]), int(offsets[row])): row for row in rows}
        for row in np.flatnonzero((starts <= begin) & (begin <= ends)).tolist():
            other = at_end.get((int(buffers[row]), int(offsets[row])))
            if other is not None and number[other] != number[row]:
                number[number == number[other]] = number[row]


def packing_of(
    program: Program, mapping: Mapping, target: Target, group: NDArray[np.int64] | None = None
) -> tuple[Packing, bool]:
    """Returns the packing problem of a mapping, an item per group, and whether it is exact.

    It is not if some residencies are slices: those are packed as if each buffer were whole.
    """
    group = groups(mapping, program) if group is None else group
    rows = mapping.residencies
    count = int(group.max(initial=-1)) + 1
    size, floor = np.zeros(count, np.int64), np.zeros(count, np.int64)
    size[group] = program.fast_size[rows[:, 0]]
    for row, (start, end) in enumerate(rows[:, 1:3].tolist()):
        floor[group[row]] = max(floor[group[row]], program.reserved[start : end + 1].max())
    packing = make_packing(
        rows[:, 1], rows[:, 2] + 1, size, target.fast_bytes, target.alignment, floor, group.astype(np.int64)
    )
    whole = (rows[:, 4] == 0) & (rows[:, 5] == program.size[rows[:, 0]])
    return packing, bool(whole.all())


def slices_of(program: Program, mapping: Mapping, target: Target, group: NDArray[np.int64] | None = None) -> Slices:
    """Returns the packing problem of a mapping with its slices: an item per group, a slice per residency."""
    group = groups(mapping, program) if group is None else group
    order = np.argsort(group, kind="stable")
    rows = extents(program, mapping.residencies)[order]
    floor = [program.reserved[start : end + 1].max() for start, end in rows[:, 1:3].tolist()]
    return Slices(
        item=group[order],
        lower=rows[:, 1].copy(),
        upper=rows[:, 2] + 1,
        low=rows[:, 4].copy(),
        high=rows[:, 5].copy(),
        floor=np.array(floor, np.int64),
        capacity=target.fast_bytes,
        alignment=target.alignment,
    )


def _reason(packing: Packing, packed: Packed, exactly: bool) -> str:
    if packed.status == INFEASIBLE and packed.method == "load":
        reason = f"{packed.load} bytes are resident at once, of {packing.capacity}"
    elif packed.status == INFEASIBLE:
        reason = f"no offsets exist: proved by {packed.nodes} nodes of the search"
    else:
        assert packed.status != FEASIBLE
        reason = f"no offsets found in {packed.nodes} nodes and {packed.seconds:.1f} s; not proved that there are none"
    return reason if exactly else reason + " (whole buffers; by rules, the slices do not fit either)"
