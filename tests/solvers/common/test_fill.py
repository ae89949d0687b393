"""Filling free memory, and gathering it by a new packing."""

from programs import make_mapping, make_program

from mallocmuzero.env.physics.objective import make_judge
from mallocmuzero.env.verifier.verify import verify
from mallocmuzero.solvers.common.fill import fill, gather


def test_repacking_gathers_room_and_fills_it() -> None:
    # Two sole copies break up the room, of which each half is too small for the third buffer.
    program = make_program(
        [("a", 0.0, ["i"], ["x"]), ("b", 0.0, ["x"], ["y"]), ("c", 0.0, ["y", "x"], ["o"])],
        {"i": {"size": 8, "input": True}, "x": 48, "y": 64, "o": {"size": 8, "output": True}},
    )
    judge = make_judge(program, "msa")
    broken = make_mapping(program, [("a", "x"), ("b", "x"), ("c", "x")], [("x", 0, 2, 32)])
    assert verify(program, program.target, broken) == []
    assert fill(judge, broken) is broken
    gathered = gather(judge, broken)
    assert verify(program, program.target, gathered) == []
    assert judge.judge(gathered) < judge.judge(broken)
    assert gather(judge, gathered) is gathered
