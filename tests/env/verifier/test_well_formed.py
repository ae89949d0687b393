"""Rows of a mapping that are no rows: wrong shapes, numbers out of range, times outside of the program."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from programs import TARGET
from verifier_cases import CHAIN, SPLIT, Case, check_case, prefetch

from mallocmuzero.env.program.program import all_hbm
from mallocmuzero.env.verifier.verify import verify
from mallocmuzero.env.verifier.violation import Kind

# fmt: off
CASES = [
    Case(
        "bytes of a residency", CHAIN, Kind.INDEX, "a", "x",
        {"residencies": [("x", 0, 3, 40, 8, 17)]},
        {"residencies": [("x", 0, 3, 40, 8, 16)]},
    ),
    Case(
        "part of a split buffer", SPLIT, Kind.INDEX, "a", "x",
        {"residencies": [("x", 0, 3, 40, 0, 8)]},
        {"residencies": [("x", 0, 3, 40, 0, 16)]},
    ),
    Case(
        "bytes of a copy", CHAIN, Kind.INDEX, "a", "w",
        {"residencies": [("w", 1, 3, 40)], "copies": [prefetch("w", 0, 3, low=4, high=4)]},
        {"residencies": [("w", 1, 3, 40)], "copies": [prefetch("w", 0, 3, low=4, high=5)]},
    ),
    Case(
        "direction", CHAIN, Kind.INDEX, "a", "w",
        {"residencies": [("w", 1, 3, 40)], "copies": [prefetch("w", 0, 3, direction=3)]},
        {"residencies": [("w", 1, 3, 40)], "copies": [prefetch("w", 0, 3, direction=0)]},
    ),
    Case(
        "replaced instruction", CHAIN, Kind.INDEX, "a", "w",
        {"residencies": [("w", 1, 3, 40)], "copies": [prefetch("w", 0, 3, replaces=6)]},
        {"residencies": [("w", 1, 3, 40)], "copies": [prefetch("w", 0, 3, replaces=-1)]},
    ),
    Case(
        "residency past the end", CHAIN, Kind.TIME, "f", "v",
        {"residencies": [("v", 5, 6, 0)]},
        {"residencies": [("v", 5, 5, 0)]},
    ),
    Case(
        "residency backwards", CHAIN, Kind.TIME, "f", "v",
        {"residencies": [("v", 5, 4, 0)]},
        {"residencies": [("v", 4, 5, 0)]},
    ),
    Case(
        "copy past the end", CHAIN, Kind.TIME, "d", "w",
        {"residencies": [("w", 4, 5, 0)], "copies": [prefetch("w", 3, 7)]},
        {"residencies": [("w", 4, 5, 0)], "copies": [prefetch("w", 3, 6)]},
    ),
    Case(
        "copy without a window", CHAIN, Kind.TIME, "e", "w",
        {"residencies": [("w", 4, 5, 0)], "copies": [prefetch("w", 4, 4)]},
        {"residencies": [("w", 4, 5, 0)], "copies": [prefetch("w", 3, 4)]},
    ),
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_rule(case: Case) -> None:
    check_case(case)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("access_fast", np.zeros(3, bool)),
        ("access_fast", np.zeros(CHAIN.num_accesses)),
        ("residencies", np.zeros((0, 5), np.int64)),
        ("residencies", np.full((1, 6), np.nan)),
        ("copies", np.zeros(8, np.int64)),
        ("copies", [[0] * 8]),
    ],
)
def test_shapes_and_types(name: str, value: Any) -> None:
    (violation,) = verify(CHAIN, TARGET, replace(all_hbm(CHAIN), **{name: value}))
    assert violation.kind == Kind.SHAPE
    assert name in violation.message


def test_an_offset_that_only_unsigned_integers_hold() -> None:
    rows = np.array([[CHAIN.buffer_names.index("w"), 0, 0, 2**63, 0, 16]], np.uint64)
    (violation,) = verify(CHAIN, TARGET, replace(all_hbm(CHAIN), residencies=rows))
    assert violation.kind == Kind.INDEX
    assert "offset 9223372036854775808" in violation.message


def test_buffer_out_of_range() -> None:
    rows = np.array([[9, 0, 0, 0, 0, 8]]), np.array([[-1, 0, 0, 3, 0, 8, 0, -1]])
    found = verify(CHAIN, TARGET, replace(all_hbm(CHAIN), residencies=rows[0], copies=rows[1]))
    assert [violation.kind for violation in found] == [Kind.INDEX, Kind.INDEX]
