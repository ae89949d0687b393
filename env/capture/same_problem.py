"""Whether two captures are of the same program, though the earlier one may record less."""

from collections.abc import Set
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..program.program import Program, problem_dict

# The log gives bytes to six digits.
_ROUNDED = 1e-5


def same_problem(one: Program, other: Program) -> bool:
    """Returns whether two captures are of the same program.

    Bytes may differ from the seventh digit on: the compiler's log rounds most of them, and gives in full those that it
    mentions when it explains a decision. Earlier captures do not record which results always go to HBM, or do not
    record that what another core of the chip or the host reads and writes is in HBM. What is split over two cores does
    not count: earlier captures do not record it, and a log tells it only of values that MSA sought room for.
    """
    is_known = one.hbm_accesses is not None and other.hbm_accesses is not None
    known, found = (
        problem_dict(replace(program, hbm_accesses=_of_this_core(program) if is_known else None, split=None))
        for program in (one, other)
    )
    for section, key in (("instructions", "bytes"), ("accesses", "bytes")):
        exact, rounded = (np.asarray(document[section].pop(key)) for document in (known, found))
        if exact.shape != rounded.shape or not np.allclose(exact, rounded, rtol=_ROUNDED, atol=0.0):
            return False
    return known == found


def tells_other_cores(program: Program) -> bool:
    """Returns whether a program records that what another core of the chip or the host reads and writes is in HBM."""
    told = np.zeros(program.num_accesses, bool) if program.hbm_accesses is None else program.hbm_accesses
    elsewhere = _elsewhere(program, {"async-update", "copy-start"}) & program.fast_allowed[program.access_buffer]
    return bool(told[elsewhere].all())


def _of_this_core(program: Program) -> NDArray[np.bool_]:
    assert program.hbm_accesses is not None
    # A program does not record whether the host takes part in an `async-start`.
    return program.hbm_accesses & ~_elsewhere(program, {"async-update", "copy-start", "async-start"})


def _elsewhere(program: Program, begin: Set[str]) -> NDArray[np.bool_]:
    """Returns `[A]` the accesses of instructions with some opcodes, and of those that end what they began."""
    opcodes = np.array(program.opcodes)
    starts, dones = np.isin(opcodes, list(begin)), np.isin(opcodes, ("async-done", "copy-done"))
    step = program.access_instruction
    touched = np.zeros(program.num_buffers, bool)
    touched[program.access_buffer[starts[step]]] = True
    return starts[step] | (dones[step] & touched[program.access_buffer])
