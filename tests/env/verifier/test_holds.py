"""What a running collective reads or writes lies still."""

import pytest
from verifier_cases import COLLECTIVE, Case, check_case, prefetch, write_back

from mallocmuzero.env.program.program import OPERAND, RESULT
from mallocmuzero.env.verifier.violation import Kind

# fmt: off
CASES = [
    Case(
        "a collective reads one memory", COLLECTIVE, Kind.HELD, "done", "a",
        {
            "fast": [("make", "a"), ("start", "a"), ("peek", "a")], "residencies": [("a", 0, 4, 0)],
            "copies": [write_back("a", 0, 4)],
        },
        {
            "fast": [("make", "a"), ("start", "a"), ("peek", "a"), ("done", "a")], "residencies": [("a", 0, 4, 0)],
            "copies": [write_back("a", 0, 4)],
        },
    ),
    Case(
        "what a collective reads does not move", COLLECTIVE, Kind.HELD, "done", "a",
        {
            "fast": [("make", "a"), ("start", "a"), ("peek", "a"), ("done", "a"), ("use", "a")],
            "residencies": [("a", 0, 2, 0), ("a", 3, 5, 32)],
            "copies": [write_back("a", 0, 2), prefetch("a", 2, 4)],
        },
        {
            "fast": [("make", "a"), ("start", "a"), ("peek", "a"), ("done", "a"), ("use", "a")],
            "residencies": [("a", 0, 4, 0), ("a", 3, 5, 32)],
            "copies": [write_back("a", 0, 2), prefetch("a", 2, 4)],
        },
    ),
    Case(
        "what a collective writes is not copied yet", COLLECTIVE, Kind.HELD, "busy", "b",
        {
            "fast": [("start", "b"), ("done", "b", OPERAND), ("done", "b", RESULT), ("use", "b")],
            "residencies": [("b", 1, 5, 0)], "copies": [write_back("b", 3, 4)],
        },
        {
            "fast": [("start", "b"), ("done", "b", OPERAND), ("done", "b", RESULT), ("use", "b")],
            "residencies": [("b", 1, 5, 0)], "copies": [write_back("b", 4, 5)],
        },
    ),
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_rule(case: Case) -> None:
    check_case(case)
