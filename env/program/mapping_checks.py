"""Checks that the rows of a mapping fit its program, on behalf of the reader of program files.

The mappings of a program file are simulated without being verified, and compiled code takes numbers that are out of
range as they are: it never ends, or reads what is not there. The verifier has the same rules in its own words
(`env/verifier/well_formed.py`). Here they are checked by column, because program files are read often.
"""

import numpy as np
from numpy.typing import NDArray

from .document import Document
from .mapping import COPY_FIELDS, CROSS_PROGRAM, PREFETCH, RESIDENCY_FIELDS, Mapping
from .program import Program

# Least and most values of a column, the same for all rows or by row.
_Range = tuple[int | NDArray[np.int64], int | NDArray[np.int64]]


def check_mapping(program: Program, mapping: Mapping, document: Document) -> None:
    """Checks that the buffers, bytes, directions, instructions and times of all rows exist. The rest is for `verify`.

    Args:
      program: the program.
      mapping: a mapping of it, as parsed.
      document: the object of the file that holds it, for messages.

    Raises:
      FormatError: a row names what does not exist, or ends before it starts.
    """
    buffers, instructions = (0, program.num_buffers - 1), program.num_instructions
    residencies = dict(zip(RESIDENCY_FIELDS, mapping.residencies.T, strict=True))
    _check(document, "residencies", residencies, {"buffer": buffers, "start": (0, instructions - 1)})
    _check(document, "residencies", residencies, {"end": (residencies["start"], instructions - 1)})
    _check_bytes(program, document, "residencies", residencies)
    copies = dict(zip(COPY_FIELDS, mapping.copies.T, strict=True))
    directions, replaces = (PREFETCH, CROSS_PROGRAM), (-1, instructions - 1)
    _check(document, "copies", copies, {"buffer": buffers, "source": buffers, "direction": directions})
    _check(document, "copies", copies, {"replaces": replaces, "start": (-1, instructions - 1)})
    _check(document, "copies", copies, {"end": (copies["start"] + 1, instructions)})
    _check_bytes(program, document, "copies", copies)


def _check_bytes(program: Program, document: Document, section: str, columns: dict[str, NDArray[np.int64]]) -> None:
    size = program.size[columns["buffer"]]
    _check(document, section, columns, {"low": (0, size - 1)})
    _check(document, section, columns, {"high": (columns["low"] + 1, size)})


def _check(document: Document, section: str, columns: dict[str, NDArray[np.int64]], ranges: dict[str, _Range]) -> None:
    for name, limits in ranges.items():
        values = columns[name]
        low, high = (np.broadcast_to(limit, values.shape) for limit in limits)
        for row in np.flatnonzero((values < low) | (values > high))[:1]:
            raise document.error(f"{section}.{name}[{row}]", f"is {values[row]}, outside {low[row]}..{high[row]}")
