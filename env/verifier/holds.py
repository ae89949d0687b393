"""Checks that buffers lie still while a running collective reads or writes them.

A collective takes hold of a buffer with one access and lets it go with a later one: both are served from the same
memory. In fast memory the bytes stay at one offset from the one to the other, which `buffer_walk.py` checks, as it does
that no copy takes a value that a collective is still writing.
"""

from collections import defaultdict
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..program.program import RESULT, Program
from .violation import Kind, Report


class Hold(NamedTuple):
    """A collective that reads, or writes, a buffer from instruction `first` to `last`."""

    first: int
    last: int
    writes: bool


def holds_by_buffer(program: Program) -> dict[int, list[Hold]]:
    """Returns the holds of each buffer that has any."""
    found: dict[int, list[Hold]] = defaultdict(list)
    at = program.access_instruction
    for since, last in program.holds.tolist():
        writes = bool(program.access_kind[since] == RESULT)
        found[int(program.access_buffer[since])].append(Hold(int(at[since]), int(at[last]), writes))
    return found


def check_memories(program: Program, access_fast: NDArray[np.bool_], report: Report) -> None:
    """Reports a buffer that a collective takes hold of in one memory, and lets go in another."""
    if program.held_since is None:
        return
    held = np.flatnonzero(program.held_since >= 0)
    since = program.held_since[held]
    for access, began in zip(held.tolist(), since.tolist(), strict=True):
        if access_fast[access] == access_fast[began]:
            continue
        memories = [("HBM", "fast memory")[int(access_fast[a])] for a in (began, access)]
        t, buffer = (int(column[access]) for column in (program.access_instruction, program.access_buffer))
        started = report.instruction(int(program.access_instruction[began]))
        words = f"{report.buffer(buffer)} is in {memories[0]} when a collective takes hold of it at {started}"
        report.add(Kind.HELD, f"{words}, and in {memories[1]} at {report.instruction(t)}.", t, buffer)
