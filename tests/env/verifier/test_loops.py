"""Rules of loops: what crosses their borders, and what holds for every pass."""

from dataclasses import replace

import pytest
from programs import TARGET, make_mapping, make_program
from verifier_cases import LOOP, Case, check_case, prefetch, write_back

from mallocmuzero.env.verifier.verify import verify
from mallocmuzero.env.verifier.violation import Kind

S_LOOP = [("head", "s"), ("tail", "s")]

# fmt: off
CASES = [
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
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_rule(case: Case) -> None:
    check_case(case)


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


@pytest.mark.parametrize(
    ("for_loop", "for_others", "legal"), [(6, 0, True), (7, 0, False), (4, 2, True), (3, 3, False), (0, 2, True)]
)
def test_four_more_prefetches_for_loops(for_loop: int, for_others: int, *, legal: bool) -> None:
    """XLA lets four more prefetches fly for loops, and the compiler's mappings do so."""
    looped, others = [f"l{i}" for i in range(for_loop)], [f"o{i}" for i in range(for_others)]
    program = make_program(
        [
            ("a", 1.0, [], ["s"]),
            ("b", 1.0, ["s"], ["t"]),
            ("c", 1.0, [*others, "t"], ["u"]),
            ("body", 1.0, looped, ["v"]),
        ],
        {name: {"size": 16, "input": True} for name in looped + others} | dict.fromkeys("stuv", 16),
        loops=[(3, 3, 2)],
    )
    fast = [("body", name) for name in looped] + [("c", name) for name in others]
    rows = [(name, 1, 3 if name in looped else 2, 16 * i) for i, name in enumerate(looped + others)]
    copies = [prefetch(name, 0, row[2]) for name, row in zip(looped + others, rows, strict=True)]
    kinds = {
        v.kind for v in verify(program, replace(TARGET, max_prefetches=2), make_mapping(program, fast, rows, copies))
    }
    assert kinds == (set() if legal else {Kind.PREFETCH_LIMIT})
