"""Touches of each buffer in program order, and facts of a program from which a relaxation makes its rows."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ..program.program import OPERAND, Program, replaced_pair
from ..program.target import Target


@dataclass(frozen=True)
class Touch:
    """All accesses of one instruction to one buffer.

    Attributes:
      buffer, instruction: the buffer and the instruction.
      reads, writes: the instruction has it as an operand, as a result.
      accesses: numbers of the accesses.
      may_be_fast: fast memory can serve them; if the instruction only reads the buffer, some of them are enough.
      slow: numbers of those that are in HBM even then.
    """

    buffer: int
    instruction: int
    reads: bool
    writes: bool
    accesses: tuple[int, ...]
    may_be_fast: bool
    slow: tuple[int, ...]


def touches(program: Program) -> list[list[Touch]]:
    """Returns, per buffer, its touches in program order."""
    grouped: list[dict[int, list[int]]] = [{} for _ in range(program.num_buffers)]
    columns = (program.access_instruction, program.access_buffer)
    for access, (t, buffer) in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        grouped[buffer].setdefault(t, []).append(access)
    kind, allowed = program.access_kind.tolist(), program.access_allowed.tolist()
    return [
        [
            Touch(
                buffer,
                t,
                any(kind[a] == OPERAND for a in accesses),
                any(kind[a] != OPERAND for a in accesses),
                tuple(accesses),
                any(allowed[a] for a in accesses),
                tuple(a for a in accesses if not allowed[a]) if any(allowed[a] for a in accesses) else (),
            )
            for t, accesses in sorted(by_instruction.items())
        ]
        for buffer, by_instruction in enumerate(grouped)
    ]


def may_be_fast(program: Program, target: Target) -> NDArray[np.bool_]:
    """Returns `[N]` whether the buffer can live in fast memory: it is allowed there and fits."""
    return program.fast_allowed & (program.size > 0) & (program.fast_size <= target.fast_bytes)


def replaceable(program: Program) -> dict[int, tuple[int, int]]:
    """Returns the instructions that an asynchronous copy may replace, with source and result buffer of each."""
    pairs = ((t, replaced_pair(program, t)) for t in range(program.num_instructions))
    return {t: pair for t, pair in pairs if pair is not None}


def wait_weights(program: Program) -> NDArray[np.float64]:
    """Returns `[T + 1]` the least weight of a wait before each instruction: the trips of the loops around the gap.

    A copy that is due there lies in that loop or in one inside it, since copies do not cross a loop's border.
    """
    around = [-1, *program.loop.tolist(), -1]
    parents = program.loop_parent.tolist()
    gaps = []
    for before, after in pairwise(around):
        # A parent has a smaller number than its child. Two loops in a row meet in the loop around both.
        while before != after:
            before, after = (parents[before], after) if before > after else (before, parents[after])
        gaps.append(before)
    return program.loop_weight[np.array(gaps)]
