"""Checks when residencies and copies begin and end: copies in flight, borders of loops, cross-program prefetches.

Residencies are arrays `[R, 7]`, copies `[C, 9]`: rows of `Mapping`, then the number of the row.
"""

import numpy as np
from numpy.typing import NDArray

from ..program.mapping import CROSS_PROGRAM, WRITE_BACK
from ..program.program import RESULT, Program
from ..program.target import MORE_FOR_LOOPS, Target
from .violation import Kind, Report


def check_copy_limits(program: Program, target: Target, copies: NDArray[np.int64], report: Report) -> None:
    """Reports too many copies in flight. A copy is in flight while instructions `start + 1 .. end - 1` run.

    For loops, which wait for all that they read, a few more prefetches may be in flight than the limit.
    """
    write_back = copies[:, 1] == WRITE_BACK
    loops = program.loop_first if program.conditional is None else program.loop_first[~program.conditional]
    other = ~write_back & ~np.isin(copies[:, 3], loops)
    most, more = target.max_prefetches, target.max_prefetches + MORE_FOR_LOOPS
    for kind, limit, counted, what in (
        (Kind.PREFETCH_LIMIT, more, ~write_back, "prefetches"),
        (Kind.PREFETCH_LIMIT, most, other, "prefetches that are not for a loop"),
        (Kind.WRITE_BACK_LIMIT, target.max_write_backs, write_back, "write-backs"),
    ):
        rows = copies[counted]
        change = np.zeros(program.num_instructions + 2, np.int64)
        np.add.at(change, rows[:, 2] + 1, 1)
        np.add.at(change, rows[:, 3], -1)
        flying = np.cumsum(change)
        for t in np.flatnonzero((flying > limit) & (np.concatenate([[0], flying[:-1]]) <= limit)):
            inside = rows[(rows[:, 2] < t) & (t < rows[:, 3])]
            last = inside[np.argmax(inside[:, 2])]
            report.add(
                kind,
                f"{flying[t]} {what} are in flight while {report.instruction(t)} runs, with that of "
                f"{report.buffer(last[0])} the last one issued; the target allows {limit}.",
                int(t),
                last[0],
            )


def check_loop_borders(
    program: Program, residencies: NDArray[np.int64], copies: NDArray[np.int64], report: Report
) -> None:
    """Reports residencies and copies that cross the border of a loop: not inside it, apart from it, nor covering it.

    A residency that covers a part of a loop and something outside it must be there at both borders: the same bytes at
    the same offset while the loop's first and last instructions run. Only the middle of the body may give them up.

    A copy is inside if it starts after an instruction of the loop and ends before one, or with the body
    (`ends_inside`). It is apart if no instruction of the loop runs while it is in flight, from a start before or at the
    loop's end: `end <= first` or `last <= start`. It covers the loop if it is in flight throughout: `start < first` and
    `last < end`.

    A copy inside a conditional is inside one of its branches. A residency may cover a part of a conditional: each
    branch begins with what was there before all of them (`buffer_walk.py`).
    """
    first, last = program.loop_first, program.loop_last
    for loop in range(len(first)):
        if _conditional_of(program, loop) < 0:
            _check_residencies(loop, int(first[loop]), int(last[loop]), residencies, report)
        start, end = copies[:, 2], copies[:, 3]
        apart = (end <= first[loop]) | (last[loop] <= start)
        bodies = np.flatnonzero(program.loop_parent == loop) if _conditional_of(program, loop) == loop else [loop]
        inside = np.zeros(len(copies), bool)
        for body in bodies:
            ends_inside = (end <= last[body]) | ((start < last[body]) & (end == last[body] + 1))
            inside |= (first[body] <= start) & ends_inside
        for row in np.flatnonzero(~(apart | inside | ((start < first[loop]) & (last[loop] < end)))):
            report.add(
                Kind.COPY_LOOP,
                f"{report.copy_row(copies[row])} crosses the border of loop {loop}, which is instructions "
                f"{first[loop]}..{last[loop]}.",
                start[row] if first[loop] <= start[row] else first[loop],
                copies[row, 0],
            )


def _conditional_of(program: Program, loop: int) -> int:
    """Returns the conditional that a loop is, or is a branch of; -1 if it is a loop proper."""
    if program.conditional is None:
        return -1
    parent = int(program.loop_parent[loop])
    return loop if program.conditional[loop] else parent if parent >= 0 and program.conditional[parent] else -1


def _check_residencies(loop: int, first: int, last: int, residencies: NDArray[np.int64], report: Report) -> None:
    start, end = residencies[:, 1], residencies[:, 2]
    apart, inside = (end < first) | (last < start), (first <= start) & (end <= last)
    for row in np.flatnonzero(~(apart | inside | ((start <= first) & (last <= end)))):
        border = last if start[row] < first else first
        if _is_held(residencies, residencies[row], border):
            continue
        report.add(
            Kind.RESIDENCY_LOOP,
            f"{report.residency(residencies[row])} covers a part of loop {loop}, which is instructions "
            f"{first}..{last}, and something outside it, but is not there at instruction {border}.",
            start[row],
            residencies[row, 0],
        )


def _is_held(residencies: NDArray[np.int64], row: NDArray[np.int64], instruction: int) -> bool:
    """Returns whether all bytes of a residency lie at its offset while `instruction` runs, in one residency or more."""
    buffer, start, end, offset, low, high = residencies[:, :6].T
    there = (buffer == row[0]) & (offset == row[3]) & (start <= instruction) & (instruction <= end)
    reached = int(row[4])
    for part_low, part_high in sorted(zip(low[there].tolist(), high[there].tolist(), strict=True)):
        if part_low > reached:
            break
        reached = max(reached, part_high)
    return reached >= row[5]


def check_cross_program(program: Program, copies: NDArray[np.int64], report: Report) -> None:
    """Reports cross-program prefetches that are late, or of a buffer that is not an input or is written."""
    results = program.access_kind == RESULT
    for row in copies[copies[:, 1] == CROSS_PROGRAM]:
        buffer, start = int(row[0]), int(row[2])
        writers = program.access_instruction[results & (program.access_buffer == buffer)]
        if program.definition[buffer] >= 0:
            trouble = "is not of a program input"
        elif start != -1:
            trouble = "does not start before the program (-1)"
        elif len(writers):
            trouble = f"is of an input that {report.instruction(int(writers[0]))} writes"
        else:
            continue
        report.add(Kind.CROSS_PROGRAM, f"{report.copy_row(row)} {trouble}.", max(start, 0), buffer)
