"""Rules of copies that replace an instruction."""

import pytest
from verifier_cases import COPY, COPY_AGAIN, COPY_LOOP, COPY_OLD, RELAYOUT, Case, check_case, prefetch, write_back

from mallocmuzero.env.verifier.violation import Kind

# fmt: off
CASES = [
    Case(
        "another buffer, and nothing replaced", COPY, Kind.REPLACES, "make", "y",
        {"residencies": [("y", 1, 4, 0)], "copies": [prefetch("y", 0, 3, source="x")]},
        {
            "fast": [("use", "y")],
            "residencies": [("y", 1, 4, 0)],
            "copies": [prefetch("y", 0, 3, source="x", replaces="copy")],
        },
    ),
    Case(
        "replaces, but reads the same buffer", COPY, Kind.REPLACES, "copy", "x",
        {"residencies": [("x", 1, 4, 0)], "copies": [prefetch("x", 0, 3, replaces="copy")]},
        {"residencies": [("x", 1, 4, 0)], "copies": [prefetch("x", 0, 3)]},
    ),
    Case(
        "replaces, but is a write-back", COPY, Kind.REPLACES, "copy", "y",
        {"residencies": [("y", 1, 4, 0)], "copies": [write_back("y", 0, 3, source="x", replaces="copy")]},
        {
            "fast": [("use", "y")],
            "residencies": [("y", 1, 4, 0)],
            "copies": [prefetch("y", 0, 3, source="x", replaces="copy")],
        },
    ),
    Case(
        "replaces what has another operand", COPY, Kind.REPLACES, "copy", "y",
        {
            "fast": [("use", "y")],
            "residencies": [("y", 2, 4, 0)],
            "copies": [prefetch("y", 1, 4, source="t", replaces="copy")],
        },
        {
            "fast": [("use", "y")],
            "residencies": [("y", 2, 4, 0)],
            "copies": [prefetch("y", 1, 4, source="x", replaces="copy")],
        },
    ),
    Case(
        "replaces what computes", COPY, Kind.REPLACES, "busier", "k",
        {"residencies": [("k", 2, 4, 0)], "copies": [prefetch("k", 1, 4, source="t", replaces="busier")]},
        {"residencies": [("y", 1, 4, 0)], "copies": [prefetch("y", 0, 4, source="x", replaces="copy")],
         "fast": [("use", "y")]},
    ),
    Case(
        "replaces what changes the layout", RELAYOUT, Kind.REPLACES, "copy", "y",
        {
            "fast": [("use", "y")],
            "residencies": [("y", 1, 4, 0)],
            "copies": [prefetch("y", 0, 3, source="x", replaces="copy")],
        },
        {"fast": [("copy", "y"), ("use", "y")], "residencies": [("y", 2, 4, 0)]},
    ),
    Case(
        "replaces, but is complete after the first read", COPY, Kind.FAST_CONTENT, "use", "y",
        {
            "fast": [("use", "y")],
            "residencies": [("y", 1, 4, 0)],
            "copies": [prefetch("y", 0, 5, source="x", replaces="copy")],
        },
        {
            "fast": [("use", "y")],
            "residencies": [("y", 1, 4, 0)],
            "copies": [prefetch("y", 0, 4, source="x", replaces="copy")],
        },
    ),
    Case(
        "replaces a part", COPY, Kind.FAST_CONTENT, "use", "y",
        {
            "fast": [("use", "y")],
            "residencies": [("y", 1, 4, 0)],
            "copies": [prefetch("y", 0, 4, high=8, source="x", replaces="copy")],
        },
        {
            "fast": [("use", "y")],
            "residencies": [("y", 1, 4, 0)],
            "copies": [
                prefetch("y", 0, 4, high=8, source="x", replaces="copy"),
                prefetch("y", 1, 4, low=8, source="x", replaces="copy"),
            ],
        },
    ),
    Case(
        "replaces, and fills fast memory only", COPY, Kind.HBM_CONTENT, "use", "y",
        {"residencies": [("y", 1, 4, 0)], "copies": [prefetch("y", 0, 2, source="x", replaces="copy")]},
        {
            "residencies": [("y", 1, 4, 0)],
            "copies": [prefetch("y", 0, 2, source="x", replaces="copy"), write_back("y", 2, 4)],
        },
    ),
    Case(
        "replaces, and its source is not in HBM", COPY, Kind.COPY_SOURCE, "make", "x",
        {
            "fast": [("make", "x"), ("use", "y")],
            "residencies": [("x", 0, 2, 32), ("y", 1, 4, 0)],
            "copies": [prefetch("y", 0, 4, source="x", replaces="copy")],
        },
        {
            "fast": [("make", "x"), ("use", "y")],
            "residencies": [("x", 0, 2, 32), ("y", 2, 4, 0)],
            "copies": [write_back("x", 0, 1), prefetch("y", 1, 4, source="x", replaces="copy")],
        },
    ),
    Case(
        "replaces, and its source is written in flight", COPY_AGAIN, Kind.COPY_RACE, "again", "x",
        {
            "fast": [("use", "y")],
            "residencies": [("y", 1, 4, 0)],
            "copies": [prefetch("y", 0, 4, source="x", replaces="copy")],
        },
        {
            "fast": [("use", "y")],
            "residencies": [("y", 1, 4, 0)],
            "copies": [prefetch("y", 0, 2, source="x", replaces="copy")],
        },
    ),
    Case(
        "replaces, but reads its source's next value", COPY_AGAIN, Kind.REPLACES, "again", "x",
        {
            "fast": [("use", "y")],
            "residencies": [("y", 3, 4, 0)],
            "copies": [prefetch("y", 2, 4, source="x", replaces="copy")],
        },
        {
            "fast": [("use", "y")],
            "residencies": [("y", 2, 4, 0)],
            "copies": [prefetch("y", 1, 2, source="x", replaces="copy")],
        },
    ),
    Case(
        "replaces, but overtakes a read of the value before", COPY_OLD, Kind.REPLACES, "peek", "y",
        {
            "fast": [("peek", "y"), ("use", "y")],
            "residencies": [("y", 1, 3, 0)],
            "copies": [prefetch("y", 0, 1, source="x", replaces="copy")],
        },
        {
            "fast": [("use", "y")],
            "residencies": [("y", 2, 3, 0)],
            "copies": [prefetch("y", 1, 3, source="x", replaces="copy")],
        },
    ),
    Case(
        "replaces what is in a loop", COPY_LOOP, Kind.REPLACES, "copy", "y",
        {
            "fast": [("use", "y")],
            "residencies": [("y", 1, 2, 0)],
            "copies": [prefetch("y", 0, 1, source="x", replaces="copy")],
        },
        {
            "fast": [("use", "y")],
            "residencies": [("y", 2, 2, 0)],
            "copies": [prefetch("y", 1, 2, source="x", replaces="copy")],
        },
    ),
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_rule(case: Case) -> None:
    check_case(case)
