"""Checks that every access, copy and program output finds the current value of its buffer.

Buffers are independent of each other but for their places in fast memory, so each is walked alone (`buffer_walk.py`).
Buffers whose values are plainly correct are passed without a walk.
"""

from collections import defaultdict
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..program.program import Program
from .buffer_walk import BufferWalk
from .events import Access, Copy, LoopNest, accesses_by_buffer
from .holds import holds_by_buffer
from .replacements import check_order, check_replacement, is_whole
from .violation import Report


def check_dataflow(
    program: Program,
    access_fast: NDArray[np.bool_],
    residencies: NDArray[np.int64],
    copies: NDArray[np.int64],
    report: Report,
    check: Callable[[], None],
) -> None:
    """Reports every access, copy and program output that does not find the current value.

    Args:
      program: the program.
      access_fast: `[A]`.
      residencies: `[R, 7]`, rows of `Mapping.residencies` and their numbers, all in range.
      copies: `[C, 9]`, rows of `Mapping.copies` and their numbers, all in range.
      report: takes the violations.
      check: called before each buffer; what it raises ends the work.
    """
    loops = LoopNest(program)
    rows_of: dict[int, list[list[int]]] = defaultdict(list)
    for row in residencies.tolist():
        rows_of[row[0]].append(row)
    copies_of: dict[int, list[Copy]] = defaultdict(list)
    read_by: dict[int, list[Copy]] = defaultdict(list)
    exempt: set[tuple[int, int]] = set()
    check()
    accesses_of = accesses_by_buffer(program, access_fast)
    check()
    holds_of = holds_by_buffer(program)
    for row in copies.tolist():
        copy = Copy(*row)
        if not is_whole(copy, report):
            continue
        copies_of[copy.buffer].append(copy)
        if copy.replaces >= 0:
            check_replacement(program, copy, accesses_of, report)
            read_by[copy.source].append(copy)
            exempt |= {(copy.replaces, copy.buffer), (copy.replaces, copy.source)}
    check_order([copy for moves in read_by.values() for copy in moves], loops, report)
    for buffer, accesses in enumerate(accesses_of):
        check()
        rows, moves, reads = rows_of.get(buffer, []), copies_of.get(buffer, []), read_by.get(buffer, [])
        if not moves and not reads and is_plain(program, loops, buffer, accesses, rows):
            continue
        if exempt:
            accesses = [a for a in accesses if (a.instruction, buffer) not in exempt]
        BufferWalk(program, loops, buffer, rows, moves, report, holds_of.get(buffer, ())).run(accesses, reads)


def is_plain(program: Program, loops: LoopNest, buffer: int, accesses: list[Access], rows: list[list[int]]) -> bool:
    """Returns whether a buffer without copies is correct without a walk. True of two kinds:

    - It stays in HBM, and is an input or written before it is read.
    - It is written before it is read, all in one loop or in none, and every access finds it in its one residency.
    """
    written = bool(accesses) and not accesses[0].operands
    if not rows:
        in_hbm = not any(True in access.operands or True in access.results for access in accesses)
        return in_hbm and (written or program.definition[buffer] < 0)
    _, first, last, _, low, high, _ = rows[0]
    if len(rows) > 1 or not written or program.is_output[buffer]:
        return False
    return (
        (low, high) == (0, program.size[buffer])
        and first <= accesses[0].instruction
        and accesses[-1].instruction <= last
        and not any(False in access.operands or False in access.results for access in accesses)
        and len({loops.of_instruction[access.instruction] for access in accesses}) == 1
    )
