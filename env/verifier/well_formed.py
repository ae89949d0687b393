"""Checks the arrays of a mapping: their shapes and types, and rows whose buffers, bytes and times exist."""

import numpy as np
from numpy.typing import NDArray

from ..program.mapping import COPY_FIELDS, RESIDENCY_FIELDS, Mapping
from ..program.program import Program
from .violation import DIRECTION_NAMES, Kind, Report


def check_shapes(program: Program, mapping: Mapping, report: Report) -> bool:
    """Returns whether all arrays of a mapping have their shapes and types, and reports those that do not."""
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


def sound_residencies(program: Program, table: NDArray[np.int64], report: Report) -> NDArray[np.int64]:
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
        elif program.is_split[buffer] and (low, high) != (0, program.size[buffer]):
            report.add(
                Kind.INDEX,
                f"Residency {number} holds bytes {low}..{high} of {report.buffer(buffer)}, which is split over the "
                f"cores of the chip and has to be there as a whole: 0..{program.size[buffer]}.",
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
        elif offset > np.iinfo(np.int64).max:  # of unsigned integers
            report.add(
                Kind.INDEX,
                f"Residency {number} of {report.buffer(buffer)} is at offset {offset}, which is beyond any memory.",
                start,
                buffer,
            )
        else:
            sound.append((buffer, start, end, offset, low, high, number))
    return np.array(sound, np.int64).reshape(-1, len(RESIDENCY_FIELDS) + 1)


def sound_copies(program: Program, table: NDArray[np.int64], report: Report) -> NDArray[np.int64]:
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
