"""A bound is never above any mapping that verifies, and tight where the optimum is known."""

import dataclasses
import random

import numpy as np
import pytest
from bound_cases import CHAIN, COPIED, any_mappings, with_copies, with_cycles
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import make_program, programs

from mallocmuzero.env.bounds.bound import PROVED_GAP, bound
from mallocmuzero.env.bounds.placement import Rules
from mallocmuzero.env.bounds.relaxation import SCOPES, build_relaxation
from mallocmuzero.env.bounds.solve import solve_integer, solve_relaxation
from mallocmuzero.env.errors import UserError
from mallocmuzero.env.game.game import MallocGame
from mallocmuzero.env.physics.cost import CYCLES, MSA
from mallocmuzero.env.physics.objective import ROBUST, Judge, make_judge
from mallocmuzero.env.program.mapping import CROSS_PROGRAM
from mallocmuzero.env.program.program import Program, all_hbm
from mallocmuzero.env.verifier.verify import verify
from mallocmuzero.env.workloads import load

# ---- never above a mapping -------------------------------------------------------------------------------------------


def bounds_of(judge: Judge, scope: str) -> list[float]:
    """Returns the bounds of the linear and of the mixed-integer relaxation, in the judge's seconds."""
    linear, _, unit_s = build_relaxation(judge, SCOPES[scope], 0.0, 10**6)
    relaxed, mixed = solve_relaxation(linear, 60.0), solve_integer(linear, 60.0)
    assert relaxed.optimal
    assert mixed.optimal
    assert relaxed.bound <= mixed.bound * (1.0 + 1e-4) + 1e-4
    return [relaxed.bound * unit_s, mixed.bound * unit_s]


@settings(max_examples=60, deadline=None)
@given(programs(max_instructions=7), st.integers(0, 2**32))
def test_no_mapping_undercuts_a_bound(program: Program, seed: int) -> None:
    rng = random.Random(seed)
    program = with_cycles(with_copies(program), rng)
    mappings = list(any_mappings(program, rng))
    for objective in (MSA, CYCLES, ROBUST):
        judge = make_judge(program, objective)
        best = min(judge.judge(mapping) for mapping in mappings)
        if judge.judge(mappings[0]) > 0:
            for least in bounds_of(judge, "legal"):
                assert least <= best + 1e-9 * judge.judge(mappings[0]), objective


def test_the_mappings_tested_against_have_all_that_is_legal() -> None:
    seen: dict[str, int] = {}
    for seed in range(300):
        rng = random.Random(seed)
        program = CHAIN if seed % 2 else COPIED
        for mapping in any_mappings(program, rng):
            copies = mapping.copies
            seen["replaces"] = seen.get("replaces", 0) + int((copies[:, 7] >= 0).any())
            seen["ahead"] = seen.get("ahead", 0) + int((copies[:, 1] == CROSS_PROGRAM).any())
            whole = copies[:, 5] - copies[:, 4] == program.size[copies[:, 0]]
            seen["slices"] = seen.get("slices", 0) + int(not whole.all())
    assert min(seen.values()) > 20, seen


# ---- tight where the optimum is known --------------------------------------------------------------------------------


def least(program: Program, objective: str = MSA, scope: str = "legal") -> float:
    """Returns the bound in seconds, nothing left out."""
    return max(bounds_of(make_judge(program, objective), scope))


def one(size: int, **fields: object) -> dict[str, object]:
    """Describes a buffer."""
    return {"size": size, **fields}


# HBM moves 100 bytes a second, fast memory 1000; fast memory has 128 bytes.
KNOWN = {
    # A program input is fetched by the previous execution: 10 bytes' fast time each.
    "ahead": (
        make_program([("use", 0.0, ["w"], ["o"])], {"w": one(100, input=True), "o": one(10, output=True)}),
        {"legal": 0.1 + 0.1, "game": 0.1 + 0.1},
    ),
    # Both fit, but the game prefetches one buffer ahead: it reads the other one in HBM.
    "ahead twice": (
        make_program(
            [("use", 0.0, ["v", "w"], ["o"])],
            {"v": one(50, input=True), "w": one(70, input=True), "o": one(10, output=True)},
        ),
        {"legal": 0.05 + 0.07 + 0.1, "game": 0.5 + 0.07 + 0.1},
    ),
    # Only one of two values fits from the first instruction to the second: the other is written and read in HBM.
    "room": (
        make_program(
            [("make", 0.0, [], ["a", "b"]), ("use", 0.0, ["a", "b"], ["o"])],
            {"a": 100, "b": 80, "o": one(1, output=True)},
        ),
        {"legal": 2 * 0.1 + 2 * 0.8 + 0.01, "game": 2 * 0.1 + 2 * 0.8 + 0.01},
    ),
    # The instruction before is idle for half of what the prefetch needs: its consumer waits for the rest.
    "stall": (
        make_program(
            [("busy", 0.5, [], []), ("use", 0.0, ["w"], ["o"]), ("write", 0.0, [], ["w"])],
            {"w": one(100, input=True), "o": one(1, output=True)},
        ),
        {"legal": 0.5 + 0.5 + 0.1 + 0.001 + 0.1, "game": 0.5 + 0.5 + 0.1 + 0.001 + 0.1},
    ),
    # An output is written to fast memory and copied out beside the instruction after it.
    "out": (
        make_program([("make", 0.0, [], ["o"]), ("busy", 5.0, [], [])], {"o": one(100, output=True)}),
        {"legal": 0.1 + 5.0, "game": 0.1 + 5.0},
    ),
    # The copy runs beside the busy instruction and costs nothing; its reader finds the result in fast memory.
    "replaced": (
        COPIED,
        {
            "legal": 3.0 + 0.056 + 0.008 + 0.08,
            "unreplaced": 3.0 + 0.112 + 0.056 + 0.008 + 0.08,
            "game": 3.0 + 0.112 + 0.056 + 0.008 + 0.08,
        },
    ),
    # Reserved bytes leave no room for anything.
    "reserved": (
        make_program(
            [("make", 0.0, [], ["a"]), ("use", 0.0, ["a"], ["o"])],
            {"a": 100, "o": one(1, output=True)},
            reserved={"use": 40},
        ),
        {"legal": 1.0 + 1.0 + 0.01, "game": 1.0 + 1.0 + 0.01},
    ),
    # An instruction reads a buffer in both memories, in one of them always.
    "both memories": (
        make_program(
            [("use", 0.0, ["w", "w"], ["o"])],
            {"w": one(100, input=True), "o": one(10, output=True)},
            hbm_accesses=np.array([True, False, False]),
        ),
        {"legal": 1.0 + 0.1 + 0.1},
    ),
    # The value has to reach HBM for that, beside the busy instruction.
    "both memories, and written": (
        make_program(
            [("make", 0.0, [], ["x"]), ("busy", 5.0, [], []), ("use", 0.0, ["x", "x"], ["o"])],
            {"x": 100, "o": one(10, output=True)},
            hbm_accesses=np.array([False, True, False, False]),
        ),
        {"legal": 0.1 + 5.0 + 1.0 + 0.1 + 0.1},
    ),
    # A wait inside a loop counts once per trip.
    "loop": (
        make_program(
            [("before", 0.0, [], ["a"]), ("body", 0.0, ["a"], ["t"]), ("end", 0.0, ["t"], ["t"])],
            {"a": 200, "t": 50},
            loops=[(1, 2, 7)],
        ),
        {"legal": 2.0 + 7 * (2.0 + 0.05 + 0.1), "game": 2.0 + 7 * (2.0 + 0.05 + 0.1)},
    ),
}


@pytest.mark.parametrize("keeps", [None, True, False])
def test_a_copy_that_changes_the_layout_is_not_replaced(keeps: bool | None) -> None:
    program, expected = KNOWN["replaced"]
    layouts = None if keeps is None else np.array([False, keeps, False])
    seconds = expected["unreplaced" if keeps is False else "legal"]
    assert least(dataclasses.replace(program, keeps_layout=layouts)) == pytest.approx(seconds, rel=1e-4)


@pytest.mark.parametrize("name", KNOWN)
def test_a_bound_is_the_optimum_where_that_is_known(name: str) -> None:
    program, expected = KNOWN[name]
    for scope, seconds in expected.items():
        assert least(program, scope=scope) == pytest.approx(seconds, rel=1e-4), scope


@pytest.mark.parametrize("name", ["both memories", "both memories, and written"])
def test_a_mapping_that_reads_in_both_memories_is_found(name: str) -> None:
    program, expected = KNOWN[name]
    found = bound(program, MSA, 20.0)
    assert found.mapping_s == pytest.approx(expected["legal"])
    assert found.proved


def test_parts_may_stay_where_the_whole_does_not_fit() -> None:
    """Of 100 bytes read twice, 48 fit beside the 80 in between: 52 are fetched again, in 0.6 s of idle time."""
    program = make_program(
        [
            ("first", 1.0, [], []),
            ("use", 0.0, ["w"], []),
            ("large", 0.0, [], ["x"]),
            ("idle", 0.6, [], []),
            ("again", 0.0, ["w"], []),
            ("write", 0.0, [], ["w"]),
        ],
        {"w": one(100, input=True), "x": 80},
    )
    part, whole = (
        solve_integer(build_relaxation(make_judge(program, MSA), rules, 0.0, 10**6)[0], 60.0)
        for rules in (Rules(), Rules(whole=True))
    )
    optimum = 1.0 + 0.1 + 0.08 + 0.6 + 0.1 + 0.1
    assert part.bound / 1000 * make_judge(program, MSA).judge(all_hbm(program)) == pytest.approx(optimum, rel=1e-4)
    assert part.bound < whole.bound * 0.98


# ---- the whole -------------------------------------------------------------------------------------------------------


@settings(max_examples=15, deadline=None)
@given(programs(max_instructions=8), st.integers(0, 2**32))
def test_bound_returns_a_mapping_that_verifies_and_is_no_better(program: Program, seed: int) -> None:
    rng = random.Random(seed)
    program = with_cycles(with_copies(program), rng)
    for objective, scope in ((MSA, "legal"), (ROBUST, "legal"), (MSA, "game")):
        found = bound(program, objective, 20.0, scope, left_out_share=rng.choice([0.0, 1e-4, 0.3]))
        assert verify(program, program.target, found.mapping) == []
        judge = make_judge(program, objective)
        assert found.mapping_s == judge.judge(found.mapping)
        assert found.mapping_s <= judge.judge(all_hbm(program))
        assert found.bound_s <= found.mapping_s * (1 + 1e-9)
        assert found.proved == (found.mapping_s <= found.bound_s * (1 + PROVED_GAP))


def test_a_bound_of_a_scope_meets_only_mappings_of_that_scope() -> None:
    """All tables of this program fit into fast memory, but the game prefetches one of them across programs."""
    program = load("dlrm-b2048")
    found = {scope: bound(program, ROBUST, 30.0, scope, integer=False) for scope in ("game", "unreplaced")}
    crosses = {scope: int((one.mapping.copies[:, 1] == CROSS_PROGRAM).sum()) for scope, one in found.items()}
    assert crosses["game"] <= 1 < crosses["unreplaced"]
    assert found["unreplaced"].mapping_s < found["game"].bound_s < found["game"].mapping_s


def test_no_line_of_the_game_undercuts_its_bound_and_the_best_comes_near() -> None:
    gaps = []

    @settings(max_examples=40, deadline=None, derandomize=True, database=None)
    @given(programs(max_instructions=4, loops=False))
    def try_all_lines(program: Program) -> None:
        best = best_line(MallocGame(program, objective=MSA, trivial_share=0.0))
        if best is not None and best > 0:
            below = max(bounds_of(make_judge(program, MSA), "game"))
            assert below <= best * (1 + 1e-9)
            gaps.append(1.0 - below / best)

    try_all_lines()
    assert len(gaps) > 20
    assert np.median(gaps) < 0.001
    assert np.mean(gaps) < 0.05


def best_line(game: MallocGame, limit: int = 300) -> float | None:
    """Returns the latency of the best of all lines of play, or None if there are too many."""
    best, open_games, count = np.inf, [game], 0
    while open_games:
        current = open_games.pop()
        count += 1
        if count > limit:
            return None
        if current.done:
            best = min(best, current.latency_s)
            continue
        for move in np.flatnonzero(current.legal).tolist():
            after = current.clone()
            after.step(move)
            open_games.append(after)
    return float(best)


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(UserError, match="scope 'all' is not known"):
        bound(CHAIN, MSA, 1.0, "all")
    with pytest.raises(UserError, match="needs time"):
        bound(CHAIN, MSA, 0.0)
    with pytest.raises(UserError, match="objective"):
        bound(CHAIN, "latency", 1.0)


@pytest.mark.parametrize("name", ["tiny", "resnet50-b128"])
def test_production_is_not_below_the_bound_of_its_program(name: str) -> None:
    program = load(name)
    found = bound(program, MSA, 30.0, integer=False)
    assert found.production_s is not None
    assert found.relaxation_s is not None
    assert found.bound_s <= found.mapping_s <= found.production_s
    assert found.relaxation_s > 0.9 * found.floor_s
