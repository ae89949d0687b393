"""Programs for the rules of the verifier, and their cases: a mapping that breaks one rule alone, and a legal twin."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from programs import make_mapping, make_program

from mallocmuzero.env.program.mapping import CROSS_PROGRAM, PREFETCH, WRITE_BACK
from mallocmuzero.env.program.program import Program
from mallocmuzero.env.verifier.verify import verify
from mallocmuzero.env.verifier.violation import Kind

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
# Of `x`, each of two cores holds 8 bytes.
SPLIT = replace(CHAIN, split=np.array([8 if name == "x" else 0 for name in CHAIN.buffer_names]))
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
# Two synchronous copies, one after the other: both write `c`, or the second reads what the first writes.
_COPIES = {"both write": ("ac", "dc"), "write, then read": ("ab", "bc")}
TWO_COPIES = {
    name: make_program(
        [
            ("make", 1.0, [], ["a", "b", "c", "d"]),
            ("one", 1.0, [], ["t"]),
            ("two", 1.0, [], ["t"]),
            ("copy.1", 1.0, [first[0]], [first[1]]),
            ("three", 1.0, [], ["t"]),
            ("copy.2", 1.0, [second[0]], [second[1]]),
            ("four", 1.0, [], ["t"]),
            ("use", 1.0, [second[1]], ["o"]),
        ],
        {**dict.fromkeys("abcdt", 16), "o": {"size": 16, "output": True}},
    )
    for name, (first, second) in _COPIES.items()
}
# Of two copies that write `y`, the first runs in a loop.
COPY_OF_LOOP = make_program(
    [
        ("make", 1.0, [], ["x", "y", "z"]),
        ("copy.1", 1.0, ["x"], ["y"]),
        ("busy", 1.0, [], ["t"]),
        ("copy.2", 1.0, ["z"], ["y"]),
        ("use", 1.0, ["y"], ["o"]),
    ],
    {**dict.fromkeys("xyzt", 16), "o": {"size": 16, "output": True}},
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

X_FAST = [("a", "x"), ("b", "x"), ("d", "x")]
X_THERE = [("x", 0, 3, 40)]
X_EARLY = [("a", "x"), ("b", "x")]


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


def violations_of(case: Case, how: dict[str, Any]) -> list[Any]:
    """Returns what the verifier says of one of the two mappings of a case."""
    target = replace(case.program.target, **case.target)
    return verify(case.program, target, make_mapping(case.program, **how))


def check_case(case: Case) -> None:
    """Checks that the bad mapping breaks the rule alone, where the case says, and that the twin breaks none."""
    (violation,) = violations_of(case, case.bad)
    assert violation.kind == case.kind
    assert violation.instruction_name == case.instruction
    assert violation.buffer_name == case.buffer
    if violation.instruction is not None:
        assert case.program.instruction_names[violation.instruction] == case.instruction
    assert violation.message.endswith(".")
    assert f"({case.buffer})" in violation.message
    assert violations_of(case, case.mend) == []
