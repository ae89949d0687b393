"""The best confirmed candidate is kept, failures are reported, and the default stays if nothing beats it."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from mallocmuzero.env.errors import UserError
from mallocmuzero.env.physics.objective import make_judge
from mallocmuzero.env.program.mapping import Mapping
from mallocmuzero.env.program.program import Program, all_hbm
from mallocmuzero.env.workloads import load
from mallocmuzero.launch.terminal.confirmation_report import report
from mallocmuzero.roundtrip.candidates import Candidate
from mallocmuzero.roundtrip.confirm import Confirmation, confirm
from mallocmuzero.roundtrip.real_compiler import Compiled
from mallocmuzero.solvers.xla.decoder import Decoder


class Stub:
    """A compiler that makes known mappings of options; they may depend on whether it goes to the end."""

    def __init__(self, made: Callable[[str, bool], Mapping | str]) -> None:
        self.made, self.asked = made, []  # type: ignore[var-annotated]

    def compile(
        self, program: Program, options: dict[str, str], *, quick: bool = False, time_limit_s: float | None = None
    ) -> Compiled:
        name = options.get("name", "default")
        self.asked.append((name, quick))
        found = self.made(name, quick)
        if isinstance(found, str):
            raise UserError(found)
        return Compiled(program, found, 1.0, 0, {}, 1.0, {})


def judged(
    program: Program, names: Sequence[str], made: Callable[[str, bool], Mapping | str], **settings: Any
) -> tuple[Confirmation, list[tuple[str, bool]], list[str]]:
    said: list[str] = []
    stub = Stub(made)
    candidates = [Candidate(name, {"name": name}) for name in names]
    found = confirm(program, None, candidates, stub, progress=said.append, **settings)  # type: ignore[arg-type]
    return found, stub.asked, said


def mappings(program: Program) -> dict[str, Mapping]:
    """XLA's own, a better one, one a little better, and the worst."""
    assert program.production is not None
    judge = make_judge(program)
    decoder = Decoder(program)
    reverse = decoder.decode(priority=-1.0 * program.size.argsort())
    orders = [decoder.decode(priority=(program.size * 0 + 1).cumsum() * factor % 7) for factor in (1, 2, 3, 4, 5)]
    found = sorted([*orders, reverse], key=judge.judge)
    better = [mapping for mapping in found if judge.judge(mapping) < judge.judge(program.production)]
    assert judge.judge(better[0]) < judge.judge(better[-1]), "the case needs two that differ"
    return {"default": program.production, "best": better[0], "good": better[-1], "worst": all_hbm(program)}


def test_the_best_confirmed_is_kept_and_compiled_to_the_end() -> None:
    tiny = load("tiny")
    made = mappings(tiny)
    found, asked, _ = judged(tiny, ["good", "worst", "best"], lambda name, quick: made[name])
    assert found.options == {"name": "best"}
    assert asked == [("default", True), ("good", True), ("worst", True), ("best", True), ("best", False)]
    found, asked, _ = judged(tiny, ["good", "best"], lambda name, quick: made[name], quick=True)
    assert found.options == {"name": "best"}
    assert ("best", False) not in asked


def test_what_turns_out_worse_at_the_end_makes_room_for_the_next() -> None:
    tiny = load("tiny")
    made = mappings(tiny)
    found, asked, _ = judged(
        tiny, ["good", "best"], lambda name, quick: made["worst" if name == "best" and not quick else name]
    )
    assert found.options == {"name": "good"}
    assert asked[-2:] == [("best", False), ("good", False)]
    found, _, said = judged(tiny, ["best"], lambda name, quick: made[name] if quick else "the compiler crashed")
    assert (found.options, found.mapping) == ({}, found.default)
    assert said == ["best is left out: the compiler crashed", "no options are better than XLA's default, which stays"]


def test_never_worse_than_the_default() -> None:
    tiny = load("tiny")
    made = mappings(tiny)
    found, _, said = judged(tiny, ["worst", "default"], lambda name, quick: made[name])
    assert (found.kept, found.options) == (None, {})
    assert said == ["no options are better than XLA's default, which stays"]
    result = report(found, made["best"])
    assert result["confirmed_us"] == result["default_us"]
    assert [tried["kept"] for tried in result["candidates"]] == [False, False]
    # The compiler of today may do better by itself than that of the capture; then that is what counts.
    found, _, said = judged(tiny, ["good"], lambda name, quick: made["best" if name == "default" else name])
    assert found.kept is None
    assert "another mapping than when the program was captured" in said[0]


def test_failures_are_told_and_the_others_judged() -> None:
    tiny = load("tiny")
    made = mappings(tiny)
    found, _, said = judged(
        tiny, ["refused", "good"], lambda name, quick: "was refused" if name == "refused" else made[name]
    )
    assert found.options == {"name": "good"}
    assert said == ["refused is left out: was refused"]
    tried = report(found, made["best"])["candidates"]
    assert [entry["error"] for entry in tried] == ["was refused", None]
    with pytest.raises(UserError, match="not even the default"):
        judged(tiny, ["good"], lambda name, quick: "not even the default")


def test_a_captured_candidate_is_compiled_only_if_it_is_the_best() -> None:
    tiny = load("tiny")
    made = mappings(tiny)
    flags = Candidate("flags", {"name": "good"}, made["good"], captured=True)
    for others, asked, options in (
        (["worst"], [("worst", True), ("good", False)], {"name": "good"}),
        (["best"], [("best", True), ("best", False)], {"name": "best"}),
    ):
        stub = Stub(lambda name, quick: made[name])
        candidates = [*(Candidate(name, {"name": name}) for name in others), flags]
        found = confirm(tiny, None, candidates, stub, just_captured=True, progress=str)  # type: ignore[arg-type]
        assert (stub.asked, found.options) == (asked, options)
        assert [attempt.error for attempt in found.attempts] == [None, None]


def test_time_for_the_compilation_to_the_end_is_kept() -> None:
    tiny = load("tiny")
    made = mappings(tiny)
    left = iter([10.0, 8.0, 8.0, 8.0, 1.0])  # one takes 2 s, and to the end 7 s
    found, asked, said = judged(
        tiny,
        ["good", "best"],
        lambda name, quick: made[name],
        time_left_s=lambda: next(left),
        reserve_s=7.0,
        just_captured=True,
    )
    assert asked == [("good", True), ("good", False)]
    assert said == ["no time for best"]
    assert found.kept is not None
    assert found.kept.exact


def test_no_time_is_left() -> None:
    tiny = load("tiny")
    made = mappings(tiny)
    left = iter([10.0, 7.0, 2.0, 0.0, 0.0, 0.0])  # one takes 3 s
    found, asked, said = judged(tiny, ["good", "best"], lambda name, quick: made[name], time_left_s=lambda: next(left))
    assert asked == [("default", True), ("good", True)]
    assert found.options == {"name": "good"}
    assert said[0] == "no time for best"
    assert "no time to compile good to the end" in said[1]
