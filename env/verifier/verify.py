"""The verifier: says whether a mapping obeys the physics. It shares no code with the game, the simulator or a solver.

The rules, in the words of `Mapping`'s conventions, are in docs/formats.md. This file checks what needs no knowledge of
the data: shapes, places in fast memory, copy limits, loops. env/verifier/dataflow.py follows the values.
"""

import heapq
from bisect import bisect_left

import numpy as np
from numpy.typing import NDArray

from ..program.mapping import COPY_FIELDS, CROSS_PROGRAM, RESIDENCY_FIELDS, WRITE_BACK, Mapping
from ..program.program import RESULT, Program
from ..program.target import Target
from .dataflow import check_contents
from .violation import DIRECTION_NAMES, Kind, Report, VerificationError, Violation


def verify(program: Program, target: Target, mapping: Mapping) -> list[Violation]:
    """Returns every violation of a mapping, in program order; none means that the mapping is legal.

    A residency or copy whose very numbers make no sense (kinds `index` and `time`) is reported and then left out, and
    after a violated read the value counts as there: one mistake gives few violations, and never none.

    Args:
      program: the program.
      target: the hardware to fit; usually `program.target`.
      mapping: the mapping.
    """
    report = Report(program)
    if mapping.program_sha256 != program.sha256:
        report.add(
            Kind.PROGRAM,
            f"The mapping is for the program {mapping.program_sha256:.12}..., not for {program.sha256:.12}....",
        )
    elif _check_shapes(program, mapping, report):
        residencies = _sound_residencies(program, mapping.residencies, report)
        copies = _sound_copies(program, mapping.copies, report)
        _check_places(program, target, residencies, report)
        _check_overlaps(residencies, report)
        _check_scoped(program, residencies, report)
        _check_limits(program, target, copies, report)
        _check_loops(program, residencies, copies, report)
        _check_cross_program(program, copies, report)
        check_contents(program, mapping.access_fast, residencies, copies, report)
    return sorted(report.violations, key=lambda v: -1 if v.instruction is None else v.instruction)


def check(program: Program, target: Target, mapping: Mapping) -> None:
    """Passes a legal mapping.

    Raises:
      VerificationError: the mapping has violations; the message gives the first few.
    """
    violations = verify(program, target, mapping)
    if violations:
        raise VerificationError(program, violations)


def _check_shapes(program: Program, mapping: Mapping, report: Report) -> bool:
    before = len(report.violations)
    for name, array, shape, kinds in (
        ("access_fast", mapping.access_fast, (program.num_accesses,), "b"),
        ("residencies", mapping.residencies, (None, len(RESIDENCY_FIELDS)), "iu"),
        ("copies", mapping.copies, (None, len(COPY_FIELDS)), "iu"),
    ):
        if not isinstance(array, np.ndarray) or array.dtype.kind not in kinds:
            wanted = "booleans" if kinds == "b" else "integers"
            report.add(Kind.SHAPE, f"`{name}` is not an array of {wanted}.")
        elif array.ndim != len(shape) or any(s is not None and s != n for s, n in zip(shape, array.shape, strict=True)):
            wanted = ", ".join("any" if s is None else str(s) for s in shape)
            report.add(Kind.SHAPE, f"`{name}` has shape {array.shape}, not ({wanted}).")
    return len(report.violations) == before


def _sound_residencies(program: Program, table: NDArray[np.int64], report: Report) -> NDArray[np.int64]:
    """Returns the rows whose numbers make sense, with the row number as a last column."""
    sound = []
    for number, (buffer, start, end, offset, low, high) in enumerate(table.tolist()):
        if not 0 <= buffer < program.num_buffers:
            report.add(Kind.INDEX, f"Residency {number} is of buffer {buffer}, outside 0..{program.num_buffers - 1}.")
        elif not 0 <= low < high <= program.size[buffer]:
            report.add(
                Kind.INDEX,
                f"Residency {number} holds bytes {low}..{high} of {report.buffer(buffer)}, which has "
                f"{program.size[buffer]} bytes.",
                start,
                buffer,
            )
        elif not 0 <= start <= end < program.num_instructions:
            report.add(
                Kind.TIME,
                f"Residency {number} of {report.buffer(buffer)} lasts over instructions {start}..{end}, which are not "
                f"an interval within 0..{program.num_instructions - 1}.",
                start,
                buffer,
            )
        else:
            sound.append((buffer, start, end, offset, low, high, number))
    return np.array(sound, np.int64).reshape(-1, len(RESIDENCY_FIELDS) + 1)


def _sound_copies(program: Program, table: NDArray[np.int64], report: Report) -> NDArray[np.int64]:
    """Returns the rows whose numbers make sense, with the row number as a last column."""
    sound = []
    for number, row in enumerate(table.tolist()):
        buffer, direction, start, end, low, high, source, replaces = row
        if not (0 <= buffer < program.num_buffers and 0 <= source < program.num_buffers):
            report.add(
                Kind.INDEX,
                f"Copy {number} is of buffer {buffer} from buffer {source}, outside 0..{program.num_buffers - 1}.",
            )
        elif direction not in DIRECTION_NAMES:
            report.add(
                Kind.INDEX,
                f"Copy {number} of {report.buffer(buffer)} has direction {direction}, not one of "
                f"{sorted(DIRECTION_NAMES)}.",
                start,
                buffer,
            )
        elif not -1 <= replaces < program.num_instructions:
            report.add(
                Kind.INDEX,
                f"Copy {number} to {report.buffer(buffer)} replaces instruction {replaces}, outside "
                f"0..{program.num_instructions - 1}.",
                start,
                buffer,
            )
        elif not 0 <= low < high <= program.size[buffer]:
            report.add(
                Kind.INDEX,
                f"Copy {number} moves bytes {low}..{high} of {report.buffer(buffer)}, which has "
                f"{program.size[buffer]} bytes.",
                start,
                buffer,
            )
        elif not -1 <= start < end <= program.num_instructions:
            report.add(
                Kind.TIME,
                f"Copy {number} of {report.buffer(buffer)} starts after instruction {start} and ends before {end}, "
                f"which is not a window within -1..{program.num_instructions}.",
                start,
                buffer,
            )
        else:
            sound.append((*row, number))
    return np.array(sound, np.int64).reshape(-1, len(COPY_FIELDS) + 1)


def _check_places(program: Program, target: Target, residencies: NDArray[np.int64], report: Report) -> None:
    buffer, start, offset, low, high = residencies[:, [0, 1, 3, 4, 5]].T
    for row in np.flatnonzero(offset % target.alignment):
        report.add(
            Kind.ALIGNMENT,
            f"{_residency(report, residencies[row])} is at offset {offset[row]}, which is not a multiple of "
            f"{target.alignment}.",
            start[row],
            buffer[row],
        )
    for row in np.flatnonzero((offset + low < 0) | (offset + high > target.fast_bytes)):
        report.add(
            Kind.CAPACITY,
            f"{_residency(report, residencies[row])} takes bytes {offset[row] + low[row]}..{offset[row] + high[row]} "
            f"of a fast memory of {target.fast_bytes}.",
            start[row],
            buffer[row],
        )
    for row in np.flatnonzero(~program.fast_allowed[buffer]):
        report.add(
            Kind.FAST_FORBIDDEN,
            f"{_residency(report, residencies[row])} is in fast memory, where this buffer must not be.",
            start[row],
            buffer[row],
        )


def _check_overlaps(residencies: NDArray[np.int64], report: Report) -> None:
    """Sweeps over time with the bytes in use in order; a residency that overlaps is reported and not entered."""
    lows: list[int] = []  # the active residencies, which are disjoint, ascending
    active: list[tuple[int, int]] = []  # their ends and row numbers
    leaving: list[tuple[int, int]] = []  # heap of last instructions and lows
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
            taken = residencies[other]
            report.add(
                Kind.OVERLAP,
                f"{_residency(report, residencies[row])} at bytes {offset + low}..{offset + high} of fast memory "
                f"overlaps {_residency(report, taken)} at bytes {taken[3] + taken[4]}..{taken[3] + taken[5]}.",
                start,
                buffer,
            )
            continue
        lows.insert(index, offset + low)
        active.insert(index, (offset + high, row))
        heapq.heappush(leaving, (end, offset + low))


def _check_scoped(program: Program, residencies: NDArray[np.int64], report: Report) -> None:
    """Compares each residency with the largest reservation while it lasts, found in a table of powers of two."""
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
    for row in np.flatnonzero((largest > offset + low) & (offset + high > 0) & (largest > 0)):
        window = program.reserved[start[row] : end[row] + 1]
        t = int(start[row] + np.flatnonzero(window > offset[row] + low[row])[0])
        report.add(
            Kind.SCOPED,
            f"{_residency(report, residencies[row])} starts at byte {offset[row] + low[row]} of fast memory, of which "
            f"{report.instruction(t)} reserves the first {program.reserved[t]}.",
            t,
            buffer[row],
        )


def _check_limits(program: Program, target: Target, copies: NDArray[np.int64], report: Report) -> None:
    """A copy is in flight while instructions `start + 1 .. end - 1` run."""
    for kind, limit, outward in (
        (Kind.PREFETCH_LIMIT, target.max_prefetches, False),
        (Kind.WRITE_BACK_LIMIT, target.max_write_backs, True),
    ):
        rows = copies[(copies[:, 1] == WRITE_BACK) == outward]
        change = np.zeros(program.num_instructions + 2, np.int64)
        np.add.at(change, rows[:, 2] + 1, 1)
        np.add.at(change, rows[:, 3], -1)
        flying = np.cumsum(change)
        for t in np.flatnonzero((flying > limit) & (np.concatenate([[0], flying[:-1]]) <= limit)):
            inside = rows[(rows[:, 2] < t) & (t < rows[:, 3])]
            last = inside[np.argmax(inside[:, 2])]
            report.add(
                kind,
                f"{flying[t]} {'write-backs' if outward else 'prefetches'} are in flight while {report.instruction(t)} "
                f"runs, with that of {report.buffer(last[0])} the last one issued; the target allows {limit}.",
                int(t),
                last[0],
            )


def _check_loops(program: Program, residencies: NDArray[np.int64], copies: NDArray[np.int64], report: Report) -> None:
    """A residency is inside a loop, apart from it, or covers it; so is a copy.

    A copy is inside if it starts after an instruction of the loop and ends before one (`first <= start`,
    `end <= last`). It is apart if no instruction of the loop runs while it is in flight, from a start before or at the
    loop's end: `end <= first` or `last <= start`. It covers the loop if it is in flight throughout: `start < first` and
    `last < end`.
    """
    for loop, (first, last) in enumerate(zip(program.loop_first.tolist(), program.loop_last.tolist(), strict=True)):
        start, end = residencies[:, 1], residencies[:, 2]
        apart, inside = (end < first) | (last < start), (first <= start) & (end <= last)
        for row in np.flatnonzero(~(apart | inside | ((start <= first) & (last <= end)))):
            report.add(
                Kind.RESIDENCY_LOOP,
                f"{_residency(report, residencies[row])} covers a part of loop {loop}, which is instructions "
                f"{first}..{last}, and something outside it.",
                start[row],
                residencies[row, 0],
            )
        start, end = copies[:, 2], copies[:, 3]
        apart, inside = (end <= first) | (last <= start), (first <= start) & (end <= last)
        for row in np.flatnonzero(~(apart | inside | ((start < first) & (last < end)))):
            report.add(
                Kind.COPY_LOOP,
                f"{_copy(report, copies[row])} crosses the border of loop {loop}, which is instructions "
                f"{first}..{last}.",
                start[row] if first <= start[row] else first,
                copies[row, 0],
            )


def _check_cross_program(program: Program, copies: NDArray[np.int64], report: Report) -> None:
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
        report.add(Kind.CROSS_PROGRAM, f"{_copy(report, row)} {trouble}.", max(start, 0), buffer)


def _residency(report: Report, row: NDArray[np.int64]) -> str:
    return f"residency {row[6]} of {report.buffer(row[0])} over instructions {row[1]}..{row[2]}"


def _copy(report: Report, row: NDArray[np.int64]) -> str:
    name = DIRECTION_NAMES[int(row[1])]
    return f"copy {row[8]} (a {name} of {report.buffer(row[0])} from {row[2]} to {row[3]})"
