"""Rules of copies: where they come from and go to, what may not happen meanwhile, how many may run."""

import pytest
from verifier_cases import CHAIN, STATE, X_EARLY, X_FAST, Case, check_case, cross, prefetch, write_back

from mallocmuzero.env.verifier.violation import Kind

# fmt: off
CASES = [
    Case(
        "prefetch of what is not in HBM", CHAIN, Kind.COPY_SOURCE, "b", "x",
        {"fast": X_FAST, "residencies": [("x", 0, 3, 40)], "copies": [prefetch("x", 1, 3)]},
        {
            "fast": [("b", "x"), ("d", "x")],
            "residencies": [("x", 1, 3, 40)],
            "copies": [prefetch("x", 0, 1)],
        },
    ),
    Case(
        "prefetch of what is not yet written", CHAIN, Kind.COPY_SOURCE, None, "x",
        {"residencies": [("x", 0, 3, 40)], "copies": [prefetch("x", -1, 0)]},
        {"residencies": [("x", 1, 3, 40)], "copies": [prefetch("x", 0, 1)]},
    ),
    Case(
        "prefetch before the write-back is complete", CHAIN, Kind.COPY_SOURCE, "b", "x",
        {
            "fast": X_FAST,
            "residencies": [("x", 0, 1, 40), ("x", 2, 3, 64)],
            "copies": [write_back("x", 0, 2), prefetch("x", 1, 3)],
        },
        {
            "fast": X_FAST,
            "residencies": [("x", 0, 1, 40), ("x", 2, 3, 64)],
            "copies": [write_back("x", 0, 1), prefetch("x", 1, 3)],
        },
    ),
    Case(
        "write-back of what is not there", CHAIN, Kind.COPY_SOURCE, "a", "x",
        {"residencies": [("x", 0, 3, 40)], "copies": [write_back("x", 0, 3)]},
        {"residencies": [("x", 0, 3, 40)], "fast": X_FAST, "copies": [write_back("x", 0, 3)]},
    ),
    Case(
        "prefetch to nowhere", CHAIN, Kind.COPY_RESIDENCY, "c", "w",
        {"copies": [prefetch("w", 2, 4)]},
        {"copies": [prefetch("w", 2, 4)], "residencies": [("w", 3, 4, 40)]},
    ),
    Case(
        "prefetch before its residency", CHAIN, Kind.COPY_RESIDENCY, "c", "w",
        {"fast": [("f", "w")], "copies": [prefetch("w", 2, 5)], "residencies": [("w", 4, 5, 40)]},
        {"fast": [("f", "w")], "copies": [prefetch("w", 3, 5)], "residencies": [("w", 4, 5, 40)]},
    ),
    Case(
        "prefetch outlasts its residency", CHAIN, Kind.COPY_RESIDENCY, "a", "w",
        {"copies": [prefetch("w", 0, 4)], "residencies": [("w", 1, 3, 40)]},
        {"copies": [prefetch("w", 0, 3)], "residencies": [("w", 1, 3, 40)]},
    ),
    Case(
        "write-back outlasts its residency", CHAIN, Kind.COPY_RESIDENCY, "b", "x",
        {"fast": X_EARLY, "residencies": [("x", 0, 1, 40)], "copies": [write_back("x", 1, 3)]},
        {"fast": X_EARLY, "residencies": [("x", 0, 2, 40)], "copies": [write_back("x", 1, 3)]},
    ),
    Case(
        "written during a write-back", STATE, Kind.COPY_RACE, "overwrite", "s",
        {
            "fast": [("first", "s"), ("update", "s")],
            "residencies": [("s", 0, 4, 0)],
            "copies": [write_back("s", 1, 4)],
        },
        {
            "fast": [("first", "s"), ("update", "s")],
            "residencies": [("s", 0, 4, 0)],
            "copies": [write_back("s", 1, 3)],
        },
    ),
    Case(
        "written during a prefetch", STATE, Kind.COPY_RACE, "overwrite", "s",
        {"residencies": [("s", 2, 4, 0)], "copies": [prefetch("s", 1, 4)], "fast": [("read", "s")]},
        {"residencies": [("s", 4, 4, 0)], "copies": [prefetch("s", 3, 4)], "fast": [("read", "s")]},
    ),
    Case(
        "too many prefetches", CHAIN, Kind.PREFETCH_LIMIT, "e", "big",
        {
            "residencies": [("w", 2, 5, 40), ("big", 4, 5, 64, 0, 16)],
            "copies": [prefetch("w", 1, 5), prefetch("big", 3, 5, high=16)],
        },
        {
            "residencies": [("w", 2, 5, 40), ("big", 4, 5, 64, 0, 16)],
            "copies": [prefetch("w", 1, 4), prefetch("big", 3, 5, high=16)],
        },
        {"max_prefetches": 1},
    ),
    Case(
        "a cross-program prefetch counts", CHAIN, Kind.PREFETCH_LIMIT, "b", "big",
        {
            "residencies": [("w", 0, 5, 40), ("big", 1, 5, 64, 0, 16)],
            "copies": [cross("w", -1, 2), prefetch("big", 0, 5, high=16)],
        },
        {
            "residencies": [("w", 0, 5, 40), ("big", 1, 5, 64, 0, 16)],
            "copies": [cross("w", -1, 1), prefetch("big", 0, 5, high=16)],
        },
        {"max_prefetches": 1},
    ),
    Case(
        "too many write-backs", CHAIN, Kind.WRITE_BACK_LIMIT, "c", "y",
        {
            "fast": [("a", "x"), ("b", "x"), ("b", "y"), ("c", "y")],
            "residencies": [("x", 0, 2, 40), ("y", 1, 3, 64)],
            "copies": [write_back("x", 0, 3), write_back("y", 1, 4)],
        },
        {
            "fast": [("a", "x"), ("b", "x"), ("b", "y"), ("c", "y")],
            "residencies": [("x", 0, 2, 40), ("y", 1, 3, 64)],
            "copies": [write_back("x", 0, 2), write_back("y", 1, 4)],
        },
        {"max_write_backs": 1},
    ),
    Case(
        "cross-program prefetch of no input", CHAIN, Kind.CROSS_PROGRAM, "a", "x",
        {"residencies": [("x", 1, 5, 40)], "copies": [cross("x", 0, 1)]},
        {"residencies": [("x", 1, 5, 40)], "copies": [prefetch("x", 0, 1)]},
    ),
    Case(
        "cross-program prefetch from inside", CHAIN, Kind.CROSS_PROGRAM, "a", "w",
        {"residencies": [("w", 0, 5, 40)], "copies": [cross("w", 0, 3)]},
        {"residencies": [("w", 0, 5, 40)], "copies": [cross("w", -1, 3)]},
    ),
    Case(
        "not there for the next execution", CHAIN, Kind.CROSS_PROGRAM, "f", "w",
        {"fast": [("a", "w")], "residencies": [("w", 0, 4, 40)], "copies": [cross("w", -1, 0)]},
        {"fast": [("a", "w")], "residencies": [("w", 0, 5, 40)], "copies": [cross("w", -1, 0)]},
    ),
    Case(
        "at another offset for the next execution", CHAIN, Kind.CROSS_PROGRAM, "f", "w",
        {
            "fast": [("a", "w")],
            "residencies": [("w", 0, 1, 40), ("w", 4, 5, 48)],
            "copies": [cross("w", -1, 0), prefetch("w", 3, 6)],
        },
        {
            "fast": [("a", "w")],
            "residencies": [("w", 0, 1, 40), ("w", 4, 5, 40)],
            "copies": [cross("w", -1, 0), prefetch("w", 3, 6)],
        },
    ),
    Case(
        "not fetched again for the next execution", CHAIN, Kind.CROSS_PROGRAM, "f", "w",
        {
            "fast": [("a", "w")],
            "residencies": [("w", 0, 1, 40), ("w", 4, 5, 40)],
            "copies": [cross("w", -1, 0)],
        },
        {
            "fast": [("a", "w")],
            "residencies": [("w", 0, 1, 40), ("w", 4, 5, 40)],
            "copies": [cross("w", -1, 0), prefetch("w", 3, 6)],
        },
    ),
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_rule(case: Case) -> None:
    check_case(case)
