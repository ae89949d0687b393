"""Rules of copies that replace an instruction."""

import pytest
from programs import TARGET, make_mapping
from verifier_cases import (
    COPY,
    COPY_AGAIN,
    COPY_LOOP,
    COPY_OF_LOOP,
    COPY_OLD,
    RELAYOUT,
    TWO_COPIES,
    Case,
    check_case,
    prefetch,
    write_back,
)

from mallocmuzero.env.verifier.verify import verify
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
    Case(
        "two that write a buffer change places", TWO_COPIES["both write"], Kind.REPLACES, "copy.2", "c",
        {
            "fast": [("use", "c")],
            "residencies": [("c", 2, 4, 0), ("c", 5, 7, 32)],
            "copies": [prefetch("c", 1, 4, source="d", replaces="copy.2"),
                       prefetch("c", 4, 6, source="a", replaces="copy.1")],
        },
        {
            "fast": [("use", "c")],
            "residencies": [("c", 2, 4, 0), ("c", 5, 7, 32)],
            "copies": [prefetch("c", 1, 4, source="a", replaces="copy.1"),
                       prefetch("c", 4, 6, source="d", replaces="copy.2")],
        },
    ),
    Case(
        "one reads before the other writes", TWO_COPIES["write, then read"], Kind.REPLACES, "copy.2", "b",
        {
            "fast": [("use", "c")],
            "residencies": [("c", 1, 7, 0), ("b", 5, 6, 32)],
            "copies": [prefetch("c", 0, 4, source="b", replaces="copy.2"),
                       prefetch("b", 4, 6, source="a", replaces="copy.1")],
        },
        {
            "fast": [("use", "c")],
            "residencies": [("b", 1, 3, 32), ("c", 5, 7, 0)],
            "copies": [prefetch("b", 0, 2, source="a", replaces="copy.1"), write_back("b", 2, 4),
                       prefetch("c", 4, 6, source="b", replaces="copy.2")],
        },
    ),
    # The walk takes a part for no new write, once another part of the same copy has been issued.
    Case(
        "a part is late", TWO_COPIES["both write"], Kind.REPLACES, "copy.2", "c",
        {
            "fast": [("use", "c")],
            "residencies": [("c", 1, 7, 0)],
            "copies": [prefetch("c", 0, 1, high=8, source="a", replaces="copy.1"),
                       prefetch("c", 2, 6, source="d", replaces="copy.2"),
                       prefetch("c", 4, 7, low=8, source="a", replaces="copy.1")],
        },
        {
            "fast": [("use", "c")],
            "residencies": [("c", 1, 7, 0)],
            "copies": [prefetch("c", 0, 1, high=8, source="a", replaces="copy.1"),
                       prefetch("c", 0, 2, low=8, source="a", replaces="copy.1"),
                       prefetch("c", 2, 6, source="d", replaces="copy.2")],
        },
    ),
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_rule(case: Case) -> None:
    check_case(case)


def test_a_copy_that_ends_with_its_loop_is_complete_before_one_that_is_issued_then() -> None:
    copies = [prefetch("y", 1, 3, source="x", replaces="copy.1"), prefetch("y", 2, 4, source="z", replaces="copy.2")]
    residencies = [("y", 2, 2, 0), ("y", 3, 4, 0)]
    assert verify(COPY_OF_LOOP, TARGET, make_mapping(COPY_OF_LOOP, [("use", "y")], residencies, copies)) == []
