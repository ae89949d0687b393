"""The test helpers make what they say."""

import numpy as np
from hypothesis import given
from programs import make_program, programs

from mallocmuzero.env.program.program import OPERAND, RESULT, Program


def test_make_program_fills_every_field() -> None:
    program = make_program(
        [("fusion.1", 1.0, ["w", "w"], ["x"]), ("fusion.2", 2.0, ["x"], ["x", "y"]), ("fusion.3", 0.5, ["y"], ["z"])],
        {"w": {"size": 16, "input": True}, "x": 8, "y": 24, "z": {"size": 8, "output": True}},
        loops=[(1, 1, 5), (0, 1, 2)],
        reserved={"fusion.2": 40},
    )
    assert program.opcodes == ("fusion",) * 3
    assert program.definition.tolist() == [-1, 0, 1, 2]
    assert program.bytes_total.tolist() == [40, 40, 32]
    assert program.reserved.tolist() == [0, 40, 0]
    assert program.loop.tolist() == [0, 1, -1]
    assert program.loop_parent.tolist() == [-1, 0]
    assert program.weight.tolist() == [2, 10, 1]
    assert program.access_start.tolist() == [0, 3, 6, 8]
    assert program.access_kind.tolist() == [OPERAND, OPERAND, RESULT, OPERAND, RESULT, RESULT, OPERAND, RESULT]
    assert program.access_path[4:6] == ("{0}", "{1}")


@given(programs())
def test_random_programs_are_valid(program: Program) -> None:
    """Nothing is read before it is written, and loops nest."""
    written = program.definition == -1
    for access in range(program.num_accesses):
        buffer = program.access_buffer[access]
        if program.access_kind[access] == OPERAND:
            assert written[buffer]
        written[buffer] = True
    assert written[program.is_output].all()
    assert np.all(np.diff(program.access_instruction) >= 0)
    for number, parent in enumerate(program.loop_parent):
        assert parent < number
        if parent >= 0:
            assert program.loop_first[parent] <= program.loop_first[number]
            assert program.loop_last[number] <= program.loop_last[parent]
