"""Rules of places in fast memory: alignment, capacity, overlaps, what may not be there, what instructions reserve."""

import pytest
from verifier_cases import CHAIN, FROM_HBM, SPLIT, TO_HBM, X_EARLY, X_FAST, Case, check_case, write_back

from mallocmuzero.env.program.mapping import WRITE_BACK
from mallocmuzero.env.program.program import RESULT
from mallocmuzero.env.verifier.violation import Kind

# fmt: off
CASES = [
    Case(
        "alignment", CHAIN, Kind.ALIGNMENT, "a", "x",
        {"fast": X_FAST, "residencies": [("x", 0, 3, 44)]},
        {"fast": X_FAST, "residencies": [("x", 0, 3, 48)]},
    ),
    Case(
        "above fast memory", CHAIN, Kind.CAPACITY, "a", "x",
        {"fast": X_FAST, "residencies": [("x", 0, 3, 120)]},
        {"fast": X_FAST, "residencies": [("x", 0, 3, 112)]},
    ),
    Case(
        "split buffer above fast memory", SPLIT, Kind.CAPACITY, "a", "x",
        {"fast": X_FAST, "residencies": [("x", 0, 3, 128)]},
        {"fast": X_FAST, "residencies": [("x", 0, 3, 120)]},
    ),
    Case(
        "where the sum of offset and size wraps around", CHAIN, Kind.CAPACITY, "a", "x",
        {"fast": X_FAST, "residencies": [("x", 0, 3, 2**63 - 8)]},
        {"fast": X_FAST, "residencies": [("x", 0, 3, 112)]},
    ),
    Case(
        "below fast memory", CHAIN, Kind.CAPACITY, "d", "u",
        {"residencies": [("u", 3, 4, -8)]},
        {"residencies": [("u", 3, 4, 0)]},
    ),
    Case(
        "too large for fast memory", CHAIN, Kind.CAPACITY, "d", "big",
        {"residencies": [("big", 3, 3, 0)]},
        {"residencies": [("big", 3, 3, 0, 0, 128)]},
    ),
    Case(
        "forbidden in fast memory", CHAIN, Kind.FAST_FORBIDDEN, "d", "slow",
        {"residencies": [("slow", 3, 3, 0)]},
        {"residencies": [("w", 3, 3, 0)]},
    ),
    Case(
        "operand that is always read from HBM", FROM_HBM, Kind.HBM_OPERAND, "d", "y",
        {"fast": [("b", "y", RESULT), ("c", "y"), ("d", "y")], "residencies": [("y", 1, 3, 48)]},
        {
            "fast": [("b", "y", RESULT), ("c", "y")],
            "residencies": [("y", 1, 2, 48)],
            "copies": [{"buffer": "y", "start": 1, "end": 3, "direction": WRITE_BACK}],
        },
    ),
    Case(
        "result that always goes to HBM", TO_HBM, Kind.HBM_RESULT, "b", "y",
        {"fast": [("b", "y", RESULT), ("c", "y"), ("d", "y")], "residencies": [("y", 1, 3, 48)]},
        {
            "fast": [("d", "y")],
            "residencies": [("y", 3, 3, 48)],
            "copies": [{"buffer": "y", "start": 2, "end": 3}],
        },
    ),
    Case(
        "overlap", CHAIN, Kind.OVERLAP, "b", "y",
        {"fast": X_FAST, "residencies": [("x", 0, 3, 40), ("y", 1, 2, 48)]},
        {"fast": X_FAST, "residencies": [("x", 0, 3, 40), ("y", 1, 2, 56)]},
    ),
    Case(
        "overlap with a split buffer", SPLIT, Kind.OVERLAP, "b", "y",
        {"fast": X_FAST, "residencies": [("x", 0, 3, 48), ("y", 1, 2, 40)]},
        {"fast": X_FAST, "residencies": [("x", 0, 3, 40), ("y", 1, 2, 48)]},
    ),
    Case(
        "overlap with the one above", CHAIN, Kind.OVERLAP, "b", "y",
        {"residencies": [("x", 0, 3, 80), ("z", 0, 3, 40), ("y", 1, 2, 72)]},
        {"residencies": [("x", 0, 3, 80), ("z", 0, 3, 40), ("y", 1, 2, 56)]},
    ),
    Case(
        "overlap at the last instruction", CHAIN, Kind.OVERLAP, "d", "u",
        {"fast": X_FAST, "residencies": [("x", 0, 3, 40), ("u", 3, 4, 40)]},
        {"fast": X_FAST, "residencies": [("x", 0, 3, 40), ("u", 4, 4, 40)]},
    ),
    Case(
        "overlap of parts of one buffer", CHAIN, Kind.OVERLAP, "d", "w",
        {"residencies": [("w", 3, 5, 40, 0, 8), ("w", 3, 5, 40, 7, 16)]},
        {"residencies": [("w", 3, 5, 40, 0, 8), ("w", 3, 5, 40, 8, 16)]},
    ),
    Case(
        "scoped", CHAIN, Kind.SCOPED, "c", "x",
        {"fast": X_FAST, "residencies": [("x", 0, 3, 32)]},
        {"fast": X_FAST, "residencies": [("x", 0, 3, 40)]},
    ),
    Case(
        "scoped, and a residency that ends before", CHAIN, Kind.SCOPED, "c", "x",
        {"fast": X_EARLY, "residencies": [("x", 0, 2, 0)], "copies": [write_back("x", 0, 2)]},
        {"fast": X_EARLY, "residencies": [("x", 0, 1, 0)], "copies": [write_back("x", 0, 2)]},
    ),
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_rule(case: Case) -> None:
    check_case(case)
