"""Finds buffers that are used in the same way, such as one of every layer."""

import numpy as np
from numpy.typing import NDArray

from ..env.program.program import Program


def alike_buffers(program: Program) -> NDArray[np.int64]:
    """Returns `[N]` a number for each buffer; buffers of one size that equal instructions write and read share it.

    Instructions are equal if they have the same opcode and take the same time, to three digits.
    """
    uses: list[list[tuple[object, ...]]] = [[(int(size),)] for size in program.size]
    for access, buffer in enumerate(program.access_buffer.tolist()):
        instruction = program.access_instruction[access]
        use = program.opcodes[instruction], int(program.access_kind[access]), int(program.access_number[access])
        uses[buffer].append((*use, float(program.access_bytes[access]), f"{program.compute_s[instruction]:.3g}"))
    numbers: dict[tuple[tuple[object, ...], ...], int] = {}
    return np.array([numbers.setdefault(tuple(used), len(numbers)) for used in uses], np.int64)
