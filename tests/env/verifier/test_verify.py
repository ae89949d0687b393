"""Every rule of the verifier: one mapping that breaks it alone, and a twin, nearly the same, that does not."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from programs import TARGET, make_mapping, make_program, programs

from mallocmuzero.env.errors import UserError
from mallocmuzero.env.program.mapping import CROSS_PROGRAM, PREFETCH, WRITE_BACK, Mapping
from mallocmuzero.env.program.program import OPERAND, RESULT, Program, all_hbm
from mallocmuzero.env.verifier.verify import check, verify
from mallocmuzero.env.verifier.violation import Kind, VerificationError

CHAIN = make_program(
    [
        ("a", 1.0, ["w"], ["x"]),
        ("b", 1.0, ["x"], ["y"]),
        ("c", 1.0, ["y"], ["z"]),
        ("d", 1.0, ["x", "z"], ["u"]),
        ("e", 1.0, ["u"], ["v"]),
        ("f", 1.0, ["v", "w"], ["out"]),
    ],
    {
        "w": {"size": 16, "input": True},
        "x": 16,
        "y": 16,
        "z": 16,
        "u": 16,
        "v": 16,
        "out": {"size": 16, "output": True},
        "slow": {"size": 16, "input": True, "fast_allowed": False},
        "big": {"size": 200, "input": True},
    },
    reserved={"c": 40},
)
# `b` always writes `y` to HBM.
TO_HBM = make_program(
    [
        ("a", 1.0, ["w"], ["x"]),
        ("b", 1.0, ["x"], ["y"]),
        ("c", 1.0, ["y"], ["z"]),
        ("d", 1.0, ["y", "z"], ["out"]),
    ],
    {"w": {"size": 16, "input": True}, "x": 16, "y": 16, "z": 16, "out": {"size": 16, "output": True}},
    hbm_accesses=np.array([False, False, False, True, False, False, False, False, False]),
)
# `d` always reads `y` from HBM.
FROM_HBM = replace(TO_HBM, hbm_accesses=np.array([False] * 6 + [True, False, False]))
# `s` is updated in place by every instruction but `read`.
STATE = make_program(
    [
        ("first", 1.0, [], ["s"]),
        ("update", 1.0, ["s"], ["s"]),
        ("other", 1.0, [], ["t"]),
        ("overwrite", 1.0, ["t"], ["s"]),
        ("read", 1.0, ["s", "s"], ["out"]),
    ],
    {"s": 16, "t": 16, "out": {"size": 16, "output": True}},
)
# Instructions 2..4 are a loop that carries `s` and reads `w`.
LOOP = make_program(
    [
        ("before", 1.0, [], ["s"]),
        ("ready", 1.0, ["w"], ["r"]),
        ("head", 1.0, ["s", "w"], ["h"]),
        ("middle", 1.0, ["h"], ["m"]),
        ("tail", 1.0, ["m", "s"], ["s"]),
        ("after", 1.0, ["s", "w"], ["out"]),
        ("end", 1.0, ["r"], ["q"]),
    ],
    {
        "w": {"size": 16, "input": True},
        "s": 16,
        "r": 16,
        "h": 16,
        "m": 16,
        "q": 16,
        "out": {"size": 16, "output": True},
    },
    loops=[(2, 4, 5)],
)
# `copy` is a synchronous copy of `x` to `y`.
COPY = make_program(
    [
        ("make", 1.0, [], ["x"]),
        ("busy", 1.0, [], ["t"]),
        ("copy", 1.0, ["x"], ["y"]),
        ("busier", 1.0, ["t"], ["k"]),
        ("use", 1.0, ["y"], ["out"]),
    ],
    {"x": 16, "t": 16, "y": 16, "k": 16, "out": {"size": 16, "output": True}},
)
RELAYOUT = replace(COPY, keeps_layout=np.zeros(5, bool))
COPY_AGAIN = make_program(
    [
        ("make", 1.0, [], ["x"]),
        ("copy", 1.0, ["x"], ["y"]),
        ("again", 1.0, [], ["x"]),
        ("busy", 1.0, [], ["t"]),
        ("use", 1.0, ["y"], ["out"]),
    ],
    {"x": 16, "t": 16, "y": 16, "out": {"size": 16, "output": True}},
)
COPY_OLD = make_program(
    [
        ("make", 1.0, [], ["x", "y"]),
        ("peek", 1.0, ["y"], ["p"]),
        ("copy", 1.0, ["x"], ["y"]),
        ("use", 1.0, ["y"], ["o"]),
    ],
    {"x": 16, "y": 16, "p": 16, "o": {"size": 16, "output": True}},
)
COPY_LOOP = make_program(
    [("make", 1.0, [], ["x"]), ("copy", 1.0, ["x"], ["y"]), ("use", 1.0, ["y"], ["z"]), ("end", 1.0, [], ["o"])],
    {"x": 16, "y": 16, "z": 16, "o": {"size": 16, "output": True}},
    loops=[(1, 2, 3)],
)

# A collective reads `a` and writes `b` from `start` to `done`; `peek` reads `a` meanwhile.
COLLECTIVE = make_program(
    [
        ("make", 1.0, [], ["a"]),
        ("start", 0.0, ["a"], ["b"]),
        ("peek", 1.0, ["a"], ["p"]),
        ("busy", 1.0, ["p"], ["q"]),
        ("done", 0.0, ["a", "b"], ["b"]),
        ("use", 1.0, ["a", "b", "q"], ["out"]),
    ],
    {"a": 16, "b": 16, "p": 16, "q": 16, "out": {"size": 16, "output": True}},
    holds=[("start", "a", "done"), ("start", "b", "done")],
)


@dataclass
class Case:
    """A rule, a mapping that breaks it, and where; `mend` is what the twin has instead."""

    name: str
    program: Program
    kind: Kind
    instruction: str | None
    buffer: str | None
    bad: dict[str, Any]
    mend: dict[str, Any]
    target: dict[str, Any] = field(default_factory=dict)


def prefetch(buffer: str, start: int, end: int, **fields: Any) -> dict[str, Any]:
    return {"buffer": buffer, "start": start, "end": end, "direction": PREFETCH, **fields}


def write_back(buffer: str, start: int, end: int, **fields: Any) -> dict[str, Any]:
    return {"buffer": buffer, "start": start, "end": end, "direction": WRITE_BACK, **fields}


def cross(buffer: str, start: int, end: int, **fields: Any) -> dict[str, Any]:
    return {"buffer": buffer, "start": start, "end": end, "direction": CROSS_PROGRAM, **fields}


X_FAST = [("a", "x"), ("b", "x"), ("d", "x")]
X_THERE = [("x", 0, 3, 40)]
X_EARLY = [("a", "x"), ("b", "x")]
S_LOOP = [("head", "s"), ("tail", "s")]

# fmt: off
CASES = [
    # ---- numbers -----------------------------------------------------------------------------------------------------
    Case(
        "bytes of a residency", CHAIN, Kind.INDEX, "a", "x",
        {"residencies": [("x", 0, 3, 40, 8, 17)]},
        {"residencies": [("x", 0, 3, 40, 8, 16)]},
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
    # ---- places ------------------------------------------------------------------------------------------------------
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
    # ---- accesses ----------------------------------------------------------------------------------------------------
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
    # ---- copies ------------------------------------------------------------------------------------------------------
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
    Case(
        "output in fast memory only", CHAIN, Kind.OUTPUT, "f", "out",
        {"fast": [("f", "out")], "residencies": [("out", 5, 5, 0)]},
        {"fast": [("f", "out")], "residencies": [("out", 5, 5, 0)], "copies": [write_back("out", 5, 6)]},
    ),
    # ---- loops -------------------------------------------------------------------------------------------------------
    Case(
        "residency enters a loop", LOOP, Kind.RESIDENCY_LOOP, "ready", "w",
        {"residencies": [("w", 1, 3, 0)]},
        {"residencies": [("w", 1, 4, 0)]},
    ),
    Case(
        "residency leaves a loop", LOOP, Kind.RESIDENCY_LOOP, "middle", "w",
        {"residencies": [("w", 3, 5, 0)]},
        {"residencies": [("w", 2, 5, 0)]},
    ),
    Case(
        "copy enters a loop", LOOP, Kind.COPY_LOOP, "head", "w",
        {"residencies": [("w", 1, 4, 0)], "copies": [prefetch("w", 0, 3)]},
        {"residencies": [("w", 1, 4, 0)], "copies": [prefetch("w", 0, 2)]},
    ),
    Case(
        "copy leaves a loop", LOOP, Kind.COPY_LOOP, "middle", "w",
        {"residencies": [("w", 2, 6, 0)], "copies": [prefetch("w", 3, 6)]},
        {"residencies": [("w", 5, 5, 0)], "copies": [prefetch("w", 4, 5)]},
    ),
    Case(
        "given up in the middle of a loop's body, and not fetched again before it ends", LOOP, Kind.LOOP_CONTENT,
        "head", "w",
        {"residencies": [("w", 2, 2, 0), ("w", 4, 4, 0)], "copies": [prefetch("w", 1, 2)], "fast": [("head", "w")]},
        {
            "residencies": [("w", 2, 2, 0), ("w", 4, 4, 0)],
            "copies": [prefetch("w", 1, 2), prefetch("w", 3, 5)],
            "fast": [("head", "w")],
        },
    ),
    Case(
        "fetched again to another place", LOOP, Kind.LOOP_CONTENT, "head", "w",
        {
            "residencies": [("w", 2, 2, 0), ("w", 4, 4, 16)],
            "copies": [prefetch("w", 1, 2), prefetch("w", 3, 5)],
            "fast": [("head", "w")],
        },
        {
            "residencies": [("w", 2, 2, 16), ("w", 4, 5, 16)],
            "copies": [prefetch("w", 1, 2), prefetch("w", 3, 5)],
            "fast": [("head", "w"), ("after", "w")],
        },
    ),
    Case(
        "enters a loop at one place and leaves it at another", LOOP, Kind.RESIDENCY_LOOP, "ready", "w",
        {
            "residencies": [("w", 1, 2, 0), ("w", 4, 4, 16)],
            "copies": [prefetch("w", 0, 2), prefetch("w", 3, 5)],
        },
        {
            "residencies": [("w", 1, 2, 0), ("w", 4, 4, 0)],
            "copies": [prefetch("w", 0, 2), prefetch("w", 3, 5)],
            "fast": [("head", "w")],
        },
    ),
    Case(
        "copy starts before the first instruction of a loop", LOOP, Kind.COPY_LOOP, "head", "w",
        {"residencies": [("w", 2, 4, 0)], "copies": [prefetch("w", 1, 4)]},
        {"residencies": [("w", 3, 4, 0)], "copies": [prefetch("w", 2, 4)]},
    ),
    Case(
        "copy over a loop ends at the loop's last instruction", LOOP, Kind.COPY_LOOP, "head", "r",
        {"residencies": [("r", 2, 6, 0)], "copies": [prefetch("r", 1, 4)], "fast": [("end", "r")]},
        {"residencies": [("r", 2, 6, 0)], "copies": [prefetch("r", 1, 5)], "fast": [("end", "r")]},
    ),
    Case(
        "loop reads what a copy over it is still bringing", LOOP, Kind.FAST_CONTENT, "head", "w",
        {"residencies": [("w", 1, 5, 0)], "copies": [prefetch("w", 0, 5)], "fast": [("head", "w")]},
        {"residencies": [("w", 1, 5, 0)], "copies": [prefetch("w", 0, 2)], "fast": [("head", "w")]},
    ),
    Case(
        "HBM holds the value in the first iteration only", LOOP, Kind.LOOP_CONTENT, "head", "s",
        {
            "fast": [("tail", "s"), ("after", "s")],
            "residencies": [("s", 2, 5, 0)],
            "copies": [prefetch("s", 2, 4)],
        },
        {
            "fast": [("head", "s"), ("tail", "s"), ("after", "s")],
            "residencies": [("s", 1, 5, 0)],
            "copies": [prefetch("s", 0, 2)],
        },
    ),
    Case(
        "the fast copy holds the value in the first iteration only", LOOP, Kind.LOOP_CONTENT, "head", "s",
        {"fast": [("before", "s"), ("head", "s")], "residencies": [("s", 0, 4, 0)], "copies": [write_back("s", 0, 1)]},
        {"fast": [("before", "s"), *S_LOOP, ("after", "s")], "residencies": [("s", 0, 5, 0)]},
    ),
    Case(
        "prefetched for the first iteration only", LOOP, Kind.LOOP_CONTENT, "head", "w",
        {"fast": [("head", "w")], "residencies": [("w", 2, 3, 0)], "copies": [prefetch("w", 1, 2)]},
        {"fast": [("head", "w")], "residencies": [("w", 2, 4, 0)], "copies": [prefetch("w", 1, 2)]},
    ),
    Case(
        "filled in a loop, read before", LOOP, Kind.FAST_CONTENT, "head", "w",
        {"fast": [("head", "w")], "residencies": [("w", 2, 4, 0)], "copies": [prefetch("w", 2, 4)]},
        {"fast": [("head", "w")], "residencies": [("w", 1, 4, 0)], "copies": [prefetch("w", 0, 2)]},
    ),
    # ---- copies that replace an instruction --------------------------------------------------------------------------
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
    # ---- collectives -------------------------------------------------------------------------------------------------
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


def build(case: Case, how: dict[str, Any]) -> list[Any]:
    target = replace(case.program.target, **case.target)
    return verify(case.program, target, make_mapping(case.program, **how))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_rule(case: Case) -> None:
    (violation,) = build(case, case.bad)
    assert violation.kind == case.kind
    assert violation.instruction_name == case.instruction
    assert violation.buffer_name == case.buffer
    if violation.instruction is not None:
        assert case.program.instruction_names[violation.instruction] == case.instruction
    assert violation.message.endswith(".")
    assert f"({case.buffer})" in violation.message
    assert build(case, case.mend) == []


def test_every_kind_has_a_case() -> None:
    """The kinds left out have tests of their own below."""
    assert {case.kind for case in CASES} | {Kind.SHAPE, Kind.PROGRAM} == set(Kind)


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


def test_buffer_out_of_range() -> None:
    rows = np.array([[9, 0, 0, 0, 0, 8]]), np.array([[-1, 0, 0, 3, 0, 8, 0, -1]])
    found = verify(CHAIN, TARGET, replace(all_hbm(CHAIN), residencies=rows[0], copies=rows[1]))
    assert [violation.kind for violation in found] == [Kind.INDEX, Kind.INDEX]


def test_mapping_of_another_program() -> None:
    (violation,) = verify(CHAIN, TARGET, all_hbm(STATE))
    assert violation.kind == Kind.PROGRAM


def test_target_is_the_one_given() -> None:
    """A mapping made for a larger fast memory does not fit a smaller one."""
    mapping = make_mapping(CHAIN, X_FAST, X_THERE)
    assert verify(CHAIN, TARGET, mapping) == []
    assert [v.kind for v in verify(CHAIN, replace(TARGET, fast_bytes=48), mapping)] == [Kind.CAPACITY]


def test_check_names_the_first_violations() -> None:
    check(CHAIN, TARGET, all_hbm(CHAIN))
    fast: Mapping = replace(all_hbm(CHAIN), access_fast=np.ones(CHAIN.num_accesses, bool))
    with pytest.raises(VerificationError, match=r"Instruction 0 \(a\)") as caught:
        check(CHAIN, TARGET, fast)
    assert isinstance(caught.value, UserError)
    assert "\n" not in str(caught.value)
    # Every operand and result finds no residency, and no output was lost: what is reported once counts as mended.
    assert len(caught.value.violations) == CHAIN.num_accesses
    assert "and 11 more" in str(caught.value)


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


def test_nested_loops() -> None:
    """A value that only the inner loop keeps fast is stale for the outer one."""
    program = make_program(
        [("a", 1.0, [], ["s"]), ("outer", 1.0, ["s"], ["o"]), ("inner", 1.0, ["s"], ["s"]), ("b", 1.0, ["o"], ["out"])],
        {"s": 16, "o": 16, "out": {"size": 16, "output": True}},
        loops=[(1, 3, 2), (2, 2, 3)],
    )
    in_loop = make_mapping(program, [("inner", "s")], [("s", 2, 2, 0)], [prefetch("s", 1, 2)])
    assert [(v.kind, v.instruction_name) for v in verify(program, TARGET, in_loop)] == [
        (Kind.LOOP_CONTENT, "outer"),
    ]
    returned = make_mapping(program, [("inner", "s")], [("s", 2, 2, 0)], [prefetch("s", 1, 2), write_back("s", 2, 3)])
    assert verify(program, TARGET, returned) == []


@given(programs())
def test_all_in_hbm_is_legal(program: Program) -> None:
    assert verify(program, program.target, all_hbm(program)) == []
