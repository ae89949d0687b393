"""What the branches of a conditional make of a value that a loop carries."""

import numpy as np
import pytest
from programs import make_program

from mallocmuzero.env.program.mapping import Mapping
from mallocmuzero.env.program.program import OPERAND, RESULT, Program
from mallocmuzero.env.verifier.verify import verify
from mallocmuzero.solvers.xla.decoder import Decoder
from mallocmuzero.solvers.xla.options import Options

COUNTING = Options(typical_bytes=48, min_overlap=0.5, preferred_overlap=4.0, max_overlap=100.0, cross_program=0)


def carried(reads: bool, more_branches: int = 0) -> Program:
    """Returns a loop that carries `c` through a conditional, whose branches make it anew, and may read it for that."""
    read = ["c", "x"] if reads else ["x"]
    branches = [(f"branch.{number}", 0.1, read, ["c"]) for number in range(2 + more_branches)]
    end = 2 + len(branches)
    instructions = [
        ("make", 0.1, ["x"], ["c"]),
        ("begin", 0.1, ["x"], ["y"]),
        *branches,
        ("sum", 0.1, ["c", "y"], ["y"]),
        ("after", 0.1, ["c", "y"], ["z"]),
    ]
    inner = [(at, at, 1) for at in range(2, end)]
    return make_program(
        instructions,
        {"x": {"size": 24, "input": True}, "c": 24, "y": 24, "z": {"size": 24, "output": True}},
        loops=[(1, end, 4), (2, end - 1, 1), *inner],
        conditional=np.array([False, True, *(False for _ in inner)]),
    )


def is_fast(program: Program, mapping: Mapping, instruction: str, kind: int) -> bool:
    """Returns whether an instruction reads or writes `c` in fast memory."""
    mine = program.access_instruction == program.instruction_names.index(instruction)
    mine &= (program.access_buffer == program.buffer_names.index("c")) & (program.access_kind == kind)
    (access,) = np.flatnonzero(mine)
    return bool(mapping.access_fast[access])


@pytest.mark.parametrize("more_branches", [0, 1])
def test_what_no_pass_reads_enters_the_loop_in_hbm(more_branches: int) -> None:
    # XLA: `IsUseAllowedInAlternateMemory`: no need for a value that the body does not use.
    program = carried(reads=False, more_branches=more_branches)
    mapping = Decoder(program, None, COUNTING).decode()
    assert verify(program, program.target, mapping) == []
    assert not is_fast(program, mapping, "make", RESULT)
    assert is_fast(program, mapping, "sum", OPERAND)


def test_what_branches_read_may_enter_them_in_fast_memory() -> None:
    program = carried(reads=True)
    mapping = Decoder(program, None, COUNTING).decode()
    assert verify(program, program.target, mapping) == []
    assert is_fast(program, mapping, "make", RESULT)
    assert is_fast(program, mapping, "branch.1", OPERAND)
