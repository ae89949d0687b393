"""Rules of accesses: what is read has to be there, whole, up to date, and at one place."""

import numpy as np
import pytest
from programs import TARGET, make_mapping, make_program
from verifier_cases import CHAIN, STATE, X_EARLY, X_FAST, X_THERE, Case, check_case, prefetch, write_back

from mallocmuzero.env.program.program import OPERAND, RESULT
from mallocmuzero.env.verifier.verify import verify
from mallocmuzero.env.verifier.violation import Kind

# fmt: off
CASES = [
    Case(
        "no residency to read", CHAIN, Kind.NO_RESIDENCY, "d", "x",
        {"fast": X_FAST, "residencies": [("x", 0, 2, 40)]},
        {"fast": X_FAST, "residencies": X_THERE},
    ),
    Case(
        "no residency to write", CHAIN, Kind.NO_RESIDENCY, "e", "v",
        {"fast": [("e", "v")], "residencies": [("v", 5, 5, 40)]},
        {"fast": [("e", "v"), ("f", "v")], "residencies": [("v", 4, 5, 40)]},
    ),
    Case(
        "parts with a hole", CHAIN, Kind.NO_RESIDENCY, "f", "w",
        {
            "fast": [("f", "w")],
            "residencies": [("w", 3, 5, 40, 0, 8), ("w", 4, 5, 40, 9, 16)],
            "copies": [prefetch("w", 2, 5, high=8), prefetch("w", 3, 5, low=9)],
        },
        {
            "fast": [("f", "w")],
            "residencies": [("w", 3, 5, 40, 0, 8), ("w", 4, 5, 40, 8, 16)],
            "copies": [prefetch("w", 2, 5, high=8), prefetch("w", 3, 5, low=8)],
        },
    ),
    Case(
        "parts at two offsets", CHAIN, Kind.NO_RESIDENCY, "f", "w",
        {
            "fast": [("f", "w")],
            "residencies": [("w", 3, 5, 40, 0, 8), ("w", 4, 5, 64, 8, 16)],
            "copies": [prefetch("w", 2, 5, high=8), prefetch("w", 3, 5, low=8)],
        },
        {
            "fast": [("f", "w")],
            "residencies": [("w", 3, 5, 64, 0, 8), ("w", 4, 5, 64, 8, 16)],
            "copies": [prefetch("w", 2, 5, high=8), prefetch("w", 3, 5, low=8)],
        },
    ),
    Case(
        "nothing prefetched", CHAIN, Kind.FAST_CONTENT, "f", "w",
        {"fast": [("f", "w")], "residencies": [("w", 4, 5, 40)]},
        {"fast": [("f", "w")], "residencies": [("w", 4, 5, 40)], "copies": [prefetch("w", 3, 5)]},
    ),
    Case(
        "a part prefetched", CHAIN, Kind.FAST_CONTENT, "f", "w",
        {"fast": [("f", "w")], "residencies": [("w", 4, 5, 40)], "copies": [prefetch("w", 3, 5, high=8)]},
        {
            "fast": [("f", "w")],
            "residencies": [("w", 4, 5, 40)],
            "copies": [prefetch("w", 3, 5, high=8), prefetch("w", 3, 4, low=8)],
        },
    ),
    Case(
        "prefetch complete too late", CHAIN, Kind.FAST_CONTENT, "f", "w",
        {"fast": [("f", "w")], "residencies": [("w", 4, 5, 40)], "copies": [prefetch("w", 3, 6)]},
        {"fast": [("f", "w")], "residencies": [("w", 4, 5, 40)], "copies": [prefetch("w", 3, 5)]},
    ),
    Case(
        "a residency that was broken", CHAIN, Kind.FAST_CONTENT, "d", "x",
        {"fast": X_FAST, "residencies": [("x", 0, 1, 40), ("x", 3, 3, 40)]},
        {"fast": X_FAST, "residencies": [("x", 0, 1, 40), ("x", 2, 3, 40)]},
    ),
    Case(
        "a residency that moved", CHAIN, Kind.FAST_CONTENT, "d", "x",
        {"fast": X_FAST, "residencies": [("x", 0, 1, 40), ("x", 2, 3, 48)]},
        {"fast": X_FAST, "residencies": [("x", 0, 1, 48), ("x", 2, 3, 48)]},
    ),
    Case(
        "fast copy stale after a write to HBM", STATE, Kind.FAST_CONTENT, "read", "s",
        {
            "fast": [("first", "s"), ("update", "s"), ("read", "s")],
            "residencies": [("s", 0, 4, 0)],
        },
        {
            "fast": [("first", "s"), ("update", "s"), ("overwrite", "s"), ("read", "s")],
            "residencies": [("s", 0, 4, 0)],
        },
    ),
    Case(
        "fast copy stale after a write elsewhere", STATE, Kind.FAST_CONTENT, "read", "s",
        {
            "fast": [("first", "s"), ("update", "s"), ("overwrite", "s"), ("read", "s")],
            "residencies": [("s", 0, 3, 0), ("s", 4, 4, 16)],
        },
        {
            "fast": [("first", "s"), ("update", "s"), ("overwrite", "s"), ("read", "s")],
            "residencies": [("s", 0, 2, 0), ("s", 3, 4, 16)],
        },
    ),
    Case(
        "HBM stale after a fast write", CHAIN, Kind.HBM_CONTENT, "b", "x",
        {"fast": [("a", "x")], "residencies": [("x", 0, 3, 40)]},
        {"fast": [("a", "x"), ("b", "x"), ("d", "x")], "residencies": [("x", 0, 3, 40)]},
    ),
    Case(
        "write-back complete too late", CHAIN, Kind.HBM_CONTENT, "d", "x",
        {"fast": X_EARLY, "residencies": [("x", 0, 3, 40)], "copies": [write_back("x", 1, 4)]},
        {"fast": X_EARLY, "residencies": [("x", 0, 3, 40)], "copies": [write_back("x", 1, 3)]},
    ),
    Case(
        "a part written back", CHAIN, Kind.HBM_CONTENT, "d", "x",
        {"fast": X_EARLY, "residencies": [("x", 0, 3, 40)], "copies": [write_back("x", 1, 3, low=8)]},
        {
            "fast": X_EARLY,
            "residencies": [("x", 0, 3, 40)],
            "copies": [write_back("x", 1, 3, low=8), write_back("x", 1, 3, high=8)],
        },
    ),
    Case(
        "write-back of the value before", STATE, Kind.HBM_CONTENT, "read", "s",
        {
            "fast": [("first", "s"), ("update", "s"), ("overwrite", "s")],
            "residencies": [("s", 0, 4, 0)],
            "copies": [write_back("s", 1, 3)],
        },
        {
            "fast": [("first", "s"), ("update", "s"), ("overwrite", "s")],
            "residencies": [("s", 0, 4, 0)],
            "copies": [write_back("s", 3, 4)],
        },
    ),
    Case(
        "reads here and writes there", STATE, Kind.IN_PLACE, "update", "s",
        {"fast": [("first", "s"), ("update", "s", OPERAND)], "residencies": [("s", 0, 1, 0)]},
        {"fast": [("first", "s"), ("update", "s")], "residencies": [("s", 0, 4, 0)], "copies": [write_back("s", 1, 3)]},
    ),
    Case(
        "reads there and writes here", STATE, Kind.IN_PLACE, "update", "s",
        {"fast": [("update", "s", RESULT)], "residencies": [("s", 1, 1, 0)]},
        {"fast": []},
    ),
    Case(
        "moves while it updates", STATE, Kind.AMBIGUOUS, "update", "s",
        {"fast": [("first", "s"), ("update", "s")], "residencies": [("s", 0, 1, 0), ("s", 1, 2, 16)]},
        {"fast": [("first", "s"), ("update", "s")], "residencies": [("s", 0, 1, 0), ("s", 2, 2, 16)]},
    ),
    Case(
        "a prefetch to either of two offsets", CHAIN, Kind.AMBIGUOUS, "b", "w",
        {"residencies": [("w", 2, 5, 40), ("w", 2, 5, 64)], "copies": [prefetch("w", 1, 5)]},
        {"residencies": [("w", 1, 5, 40), ("w", 2, 5, 64)], "copies": [prefetch("w", 1, 5)]},
    ),
    # XLA does this to weights that two instructions in a row read: libtpu 0.0.51, bandwidth scaled by 0.35.
    Case(
        "slices that go to two offsets at once", CHAIN, Kind.FAST_CONTENT, "f", "w",
        {
            "fast": [("f", "w")],
            "residencies": [
                *(("w", 1, 4, 40, low, low + 8) for low in (0, 8)),
                ("w", 1, 5, 64, 0, 8),
                ("w", 3, 5, 64, 8, 16),
            ],
            "copies": [
                *(prefetch("w", 0, 4, low=low, high=low + 8) for low in (0, 8)),
                prefetch("w", 0, 5, low=0, high=8),
            ],
        },
        {
            "fast": [("f", "w")],
            "residencies": [
                *(("w", 1, 4, 40, low, low + 8) for low in (0, 8)),
                ("w", 1, 5, 64, 0, 8),
                ("w", 3, 5, 64, 8, 16),
            ],
            "copies": [
                *(prefetch("w", 0, 4, low=low, high=low + 8) for low in (0, 8)),
                prefetch("w", 0, 5, low=0, high=8),
                prefetch("w", 2, 5, low=8, high=16),
            ],
        },
    ),
    Case(
        "more offsets than prefetches that start together", CHAIN, Kind.AMBIGUOUS, "b", "w",
        {
            "residencies": [("w", 2, 5, 40), ("w", 2, 5, 64), ("w", 2, 4, 80)],
            "copies": [prefetch("w", 1, 4), prefetch("w", 1, 5)],
        },
        {
            "fast": [("f", "w")],
            "residencies": [("w", 2, 5, 40), ("w", 2, 4, 64)],
            "copies": [prefetch("w", 1, 4), prefetch("w", 1, 5)],
        },
    ),
    Case(
        "output in fast memory only", CHAIN, Kind.OUTPUT, "f", "out",
        {"fast": [("f", "out")], "residencies": [("out", 5, 5, 0)]},
        {"fast": [("f", "out")], "residencies": [("out", 5, 5, 0)], "copies": [write_back("out", 5, 6)]},
    ),
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_rule(case: Case) -> None:
    check_case(case)


def test_twice_the_same_prefetch_is_harmless() -> None:
    copies = [prefetch("w", 2, 4), prefetch("w", 3, 5)]
    assert verify(CHAIN, TARGET, make_mapping(CHAIN, [("f", "w")], [("w", 3, 5, 40)], copies)) == []


def test_operands_of_one_buffer_may_differ() -> None:
    """`read` has `s` twice; each is served from its own memory if both hold the value."""
    copies = [prefetch("s", 3, 4)]
    mapping = make_mapping(STATE, [], [("s", 4, 4, 0)], copies)
    reads = np.flatnonzero(STATE.access_instruction == 4)
    mapping.access_fast[reads[0]] = True
    assert verify(STATE, TARGET, mapping) == []


def test_a_part_left_from_the_value_before() -> None:
    """Half of `s` stays at offset 64 while `second` writes it elsewhere; half of the new value cannot complete it."""
    program = make_program(
        [
            ("first", 1.0, [], ["s"]),
            ("idle", 1.0, [], ["i"]),
            ("second", 1.0, [], ["s"]),
            ("busy", 1.0, [], ["b"]),
            ("busier", 1.0, [], ["c"]),
            ("read", 1.0, ["s"], ["out"]),
        ],
        {"s": 16, "i": 8, "b": 8, "c": 8, "out": {"size": 16, "output": True}},
    )
    fast = [("second", "s"), ("read", "s")]
    residencies = [("s", 1, 5, 64, 0, 8), ("s", 2, 2, 0), ("s", 4, 5, 64, 8, 16)]
    copies = [prefetch("s", 0, 2, high=8), write_back("s", 2, 3), prefetch("s", 3, 5, low=8)]
    (violation,) = verify(program, TARGET, make_mapping(program, fast, residencies, copies))
    assert (violation.kind, violation.instruction_name) == (Kind.FAST_CONTENT, "read")
    copies.append(prefetch("s", 3, 5, high=8))
    assert verify(program, TARGET, make_mapping(program, fast, residencies, copies)) == []
