"""The shares of a mapping, and of its gain, that came true."""

import pytest
from compiler_cases import small_program
from programs import make_mapping

from mallocmuzero.roundtrip.comparison import gains, realised


def test_what_came_true() -> None:
    program = small_program()
    copy = {"buffer": "x", "start": 0, "end": 2}
    wanted = make_mapping(program, [("c.2", "x")], [("x", 1, 2, 0)], [copy])
    assert realised(program, wanted, wanted) == {"bytes": 1.0, "uses": 1.0, "copies": 1.0}
    other = make_mapping(program, [("b", "z"), ("c.2", "z")], [("z", 1, 2, 0)])
    found = realised(program, wanted, other)
    moved = 16 + 24 + 24 + 32 + 32 + 16 + 8
    assert found == {"bytes": pytest.approx(1 - (16 + 32 + 32) / moved), "uses": pytest.approx(4 / 7), "copies": 0.0}


def test_the_share_of_a_gain() -> None:
    found = gains(
        {"msa": 100.0, "cycles": None, "x": 5.0},
        {"msa": 80.0, "cycles": 1.0, "x": 6.0},
        {"msa": 110.0, "cycles": 1.0, "x": 4.0},
    )
    assert found["msa"] == {"promised_percent": 20.0, "confirmed_percent": -10.0, "share": -0.5}
    assert found["cycles"]["share"] is None
    assert found["x"] == {"promised_percent": -20.0, "confirmed_percent": 20.0, "share": None}
