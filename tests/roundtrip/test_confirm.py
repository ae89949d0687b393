"""The best confirmed candidate is kept, failures are reported, and the default stays if nothing beats it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from mallocmuzero.env.errors import UserError
from mallocmuzero.env.physics.objective import Judge, make_judge
from mallocmuzero.env.program.cycle_table import BY_TIME, CycleTable, build_table
from mallocmuzero.env.program.mapping import Mapping
from mallocmuzero.env.program.program import Program, all_hbm
from mallocmuzero.env.workloads import load
from mallocmuzero.launch.terminal.confirmation_report import report
from mallocmuzero.roundtrip.candidates import Candidate
from mallocmuzero.roundtrip.confirm import Confirmation, confirm, scout
from mallocmuzero.roundtrip.real_compiler import Compiled
from mallocmuzero.solvers.xla.decoder import Decoder


class Stub:
    """A compiler that makes known mappings of options; they may depend on whether it goes to the end."""

    def __init__(self, made: Callable[[str, bool], Mapping | str], told: Program | None = None) -> None:
        self.made, self.told, self.asked = made, told, []  # type: ignore[var-annotated]

    def compile(
        self, program: Program, options: dict[str, str], *, quick: bool = False, time_limit_s: float | None = None
    ) -> Compiled:
        name = options.get("name", "default")
        self.asked.append((name, quick))
        found = self.made(name, quick)
        if isinstance(found, str):
            raise UserError(found)
        told = program if quick or self.told is None else self.told
        return Compiled(told, found, 1.0, 0, {}, 1.0, {})


def judged(
    program: Program,
    names: Sequence[str],
    made: Callable[[str, bool], Mapping | str],
    objective: str | None = None,
    **settings: Any,
) -> tuple[Confirmation, list[tuple[str, bool]], list[str]]:
    said: list[str] = []
    stub = Stub(made)
    candidates = [Candidate(name, {"name": name}) for name in names]
    found = confirm(program, objective, candidates, stub, progress=said.append, **settings)  # type: ignore[arg-type]
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


def test_what_an_earlier_search_had_compiled_is_not_asked_about_again() -> None:
    tiny = load("tiny")
    made = mappings(tiny)
    stub = Stub(lambda name, quick: made[name], told=replace(tiny, name="with its cycles"))
    told, (scouted,) = scout(tiny, [Candidate("best", {"name": "best"})], stub, progress=str)  # type: ignore[arg-type]
    assert (scouted.exact, stub.asked) == (True, [("best", False)])
    assert scouted.compiled is not None
    assert told is scouted.compiled.program
    assert told.name == "with its cycles"
    stub.told = None
    for names, options, asked in (
        (["best", "good"], {"name": "best"}, [("good", True)]),
        (["worst"], {"name": "best"}, [("worst", True)]),
    ):
        stub.asked.clear()
        candidates = [Candidate(name, {"name": name}) for name in names]
        found = confirm(
            told,
            None,
            candidates,
            stub,
            just_captured=True,
            earlier=[scouted],
            progress=str,  # type: ignore[arg-type]
        )
        assert (found.options, stub.asked) == (options, asked)
        assert found.attempts[0] is scouted
    crashing = Stub(lambda *_: "crashed")
    same, (failed,) = scout(tiny, [Candidate("bad", {"name": "bad"})], crashing, progress=str)  # type: ignore[arg-type]
    assert same is tiny
    assert (failed.exact, failed.error) == (False, "crashed")


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


def test_the_first_is_compiled_to_the_end_at_once_where_there_is_no_time_for_two() -> None:
    tiny = load("tiny")
    made = mappings(tiny)
    left = iter([10.0, 2.0, 2.0, 0.0])  # to the end takes 8 s
    found, asked, said = judged(
        tiny,
        ["good", "best"],
        lambda name, quick: made[name],
        time_left_s=lambda: next(left),
        reserve_s=7.0,
        candidate_s=2.0,
        just_captured=True,
    )
    assert asked == [("good", False)]
    assert said == ["no time for best"]
    assert found.kept is not None
    assert found.kept.exact


def test_without_time_for_its_cycles_nothing_is_kept() -> None:
    tiny = load("tiny")
    made = mappings(tiny)
    for objective, options in ((None, {}), ("cycles", {}), ("msa", {"name": "good"})):
        left = iter([10.0, 7.0, 2.0, 0.0, 0.0, 0.0])  # one takes 3 s
        found, asked, said = judged(
            without_cycles_of(tiny, made["good"]),
            ["good", "best"],
            lambda name, quick: made[name],
            objective=objective,
            time_left_s=lambda left=left: next(left),  # type: ignore[misc]
        )
        assert asked == [("default", True), ("good", True)]
        assert found.options == options
        assert said[0] == "no time for best"
        assert "no time to compile good to the end" in said[1]
        assert (found.untold is None) == (objective == "msa")
    result = report(found, made["best"])
    assert result["untold"] is None


def test_cycles_that_the_capture_has_seen_need_no_compilation_to_the_end() -> None:
    tiny = load("tiny")
    made = mappings(tiny)
    left = iter([10.0, 9.0, 9.0, 5.0, 0.0, 0.0])
    found, asked, said = judged(
        with_cycles_of(tiny, made["default"], made["good"]),
        ["good", "best"],
        lambda name, quick: made[name],
        time_left_s=lambda: next(left),
        just_captured=True,
    )
    assert asked == [("good", True), ("best", True)]
    assert found.options == {"name": "good"}
    assert found.untold is not None
    assert found.untold.candidate.kind == "best"
    assert "good is kept instead" in said[-1]
    told = {tried["kind"]: tried["confirmed_us"] for tried in report(found, made["best"], told_only=True)["candidates"]}
    assert told["good"]["cycles"] is not None
    assert (told["best"]["cycles"], told["best"]["msa"] is None) == (None, False)


def test_a_table_of_one_compilation_is_completed_and_the_end_decides() -> None:
    tiny = load("tiny")
    made = mappings(tiny)
    thin = with_cycles_of(tiny, made["default"])
    assert thin.cycles is not None
    thin = replace(thin, cycles=replace(thin.cycles, completion=BY_TIME))
    for objective, options in (("robust", {"name": "best"}), ("msa", {"name": "best"})):
        stub = Stub(lambda name, quick: made[name], tiny)
        candidates = [Candidate(name, {"name": name}) for name in ("worst", "good", "best")]
        found = confirm(thin, objective, candidates, stub, just_captured=True, progress=str)  # type: ignore[arg-type]
        assert found.options == options
        assert found.kept is not None
        assert found.kept.exact
    # What seems best is no better: the compilation to the end finds out, and the next is tried.
    worse = replace(tiny, cycles=dearer(tiny, made["best"]))
    stub = Stub(lambda name, quick: made[name], worse)
    candidates = [Candidate(name, {"name": name}) for name in ("best", "default")]
    found = confirm(thin, "robust", candidates, stub, just_captured=True, progress=str)  # type: ignore[arg-type]
    assert stub.asked == [("best", True), ("default", True), ("best", False)]
    assert found.kept is None


def placements(program: Program, mapping: Mapping) -> set[tuple[int, int]]:
    """The pairs of row and placement of a mapping."""
    assert program.cycles is not None
    found = set()
    for t, row in enumerate(program.cycles.row.tolist()):
        begin, end = program.access_start[t], program.access_start[t + 1]
        fast = sum(1 << k for k, is_fast in enumerate(mapping.access_fast[begin:end].tolist()) if is_fast)
        found.add((row, fast))
    return found


def with_cycles_of(program: Program, *known: Mapping) -> Program:
    """The program as a capture leaves it that has seen the cycles of some mappings alone, each at its least."""
    assert program.cycles is not None
    columns = program.cycles.pair_row.tolist(), program.cycles.pair_fast, program.cycles.pair_cycles.tolist()
    pairs = {(row, fast): cycles for row, fast, cycles in zip(*columns, strict=True)}
    cheapest = {row: min(cycles for (of, _), cycles in pairs.items() if of == row) for row, _ in pairs}
    seen = set().union(*(placements(program, mapping) for mapping in known))
    kept = {(row, fast): pairs.get((row, fast), cheapest[row]) for row, fast in seen if row >= 0}
    return replace(program, cycles=build_table(program.cycles.row, kept, 1), variants=())


def without_cycles_of(program: Program, unknown: Mapping) -> Program:
    """The program with a cycle table that lacks a placement of a mapping which the default does not have."""
    assert program.cycles is not None
    assert program.production is not None
    columns = program.cycles.pair_row.tolist(), program.cycles.pair_fast, program.cycles.pair_cycles.tolist()
    lost = placements(program, unknown) - placements(program, program.production)
    pairs = {(row, fast): cycles for row, fast, cycles in zip(*columns, strict=True) if (row, fast) not in lost}
    return replace(program, cycles=build_table(program.cycles.row, pairs, program.cycles.compilations))


def dearer(program: Program, mapping: Mapping) -> CycleTable:
    """The cycle table where all placements that a mapping has and the default has not take ten times as long."""
    assert program.cycles is not None
    assert program.production is not None
    only = placements(program, mapping) - placements(program, program.production)
    columns = program.cycles.pair_row.tolist(), program.cycles.pair_fast, program.cycles.pair_cycles.tolist()
    pairs = {
        (row, fast): cycles * (10 if (row, fast) in only else 1) for row, fast, cycles in zip(*columns, strict=True)
    }
    high = {row: max(cycles for (of, _), cycles in pairs.items() if of == row) for row, _ in pairs}
    pairs |= {(row, fast): 10 * high[row] for row, fast in only if row >= 0 and (row, fast) not in pairs}
    return build_table(program.cycles.row, pairs, program.cycles.compilations)


def test_of_those_that_gain_alike_the_other_model_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    program = load("alexnet-train-b128")
    assert program.production is not None
    made = {name: replace(program.production, origin={"solver": name}) for name in ("default", "first", "second")}
    gained = {"first": {"msa": 9.5, "cycles": 9.9}, "second": {"msa": 8.0, "cycles": 9.9}}

    def latencies(self: Judge, mapping: Mapping) -> dict[str, float]:
        before = self.baseline
        share = gained.get(mapping.origin["solver"], {})
        return {model: before[model] * share.get(model, 10.0) / 10.0 for model in before}

    monkeypatch.setattr(Judge, "latencies", latencies)
    found, _, _ = judged(program, ["first", "second"], lambda name, quick: made[name], quick=True)
    assert found.kept is not None
    assert found.kept.candidate.kind == "second"


@pytest.mark.parametrize(
    ("spare_s", "asked", "kept"), [(100.0, ["first", "second"], "second"), (0.5, ["first"], "first")]
)
def test_with_time_to_spare_the_others_are_compiled_to_the_end(
    monkeypatch: pytest.MonkeyPatch, spare_s: float, asked: list[str], kept: str
) -> None:
    program = load("alexnet-train-b128")
    assert program.production is not None
    made = {name: replace(program.production, origin={"solver": name}) for name in ("default", "first", "second")}
    seems, is_so = {"first": 9.0, "second": 9.5}, {"first": 9.0, "second": 8.0}

    def latencies(self: Judge, mapping: Mapping) -> dict[str, float]:
        known = is_so if self.program.name == "told of both" else seems
        return {model: s * known.get(mapping.origin["solver"], 10.0) / 10.0 for model, s in self.baseline.items()}

    monkeypatch.setattr(Judge, "latencies", latencies)
    monkeypatch.setattr("mallocmuzero.roundtrip.confirm.cycles_are_told", lambda *_: False)
    to_the_end: list[str] = []

    def compiled(program: Program, options: dict[str, str], *, quick: bool = False, **_: Any) -> Compiled:
        if not quick:
            to_the_end.append(options["name"])
            program = replace(program, name="told of both" if len(to_the_end) == 2 else program.name)
        return Compiled(program, made[options["name"]], 1.0, 0, {}, 1.0, {})

    found = confirm(
        program,
        None,
        [Candidate(name, {"name": name}) for name in ("first", "second")],
        SimpleNamespace(compile=compiled),  # type: ignore[arg-type]
        just_captured=True,
        time_left_s=lambda: spare_s if to_the_end else 100.0,
        reserve_s=1.0,
        all_to_the_end=True,
        progress=str,
    )
    assert to_the_end == asked
    assert found.kept is not None
    assert found.kept.candidate.kind == kept
