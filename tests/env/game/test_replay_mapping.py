"""A mapping replayed as a line of play; moves that name an offset, wait for a write-back, or cross programs."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import make_program, programs

from mallocmuzero.env.game.game import MallocGame
from mallocmuzero.env.game.holding import per_pass_of
from mallocmuzero.env.game.moves import COPY, DROP, NO_COPY
from mallocmuzero.env.game.replay_mapping import HELD, LOST, TIED, TRIVIAL, follow, report
from mallocmuzero.env.physics.simulator import simulate
from mallocmuzero.env.program.mapping import CROSS_PROGRAM, PREFETCH
from mallocmuzero.env.program.program import Program
from mallocmuzero.env.verifier.verify import verify
from mallocmuzero.env.workloads import PROGRAMS_FOLDER, load


def play_to_the_end(game: MallocGame, seed: int) -> float:
    """Plays randomly, half the moves that place a buffer at a named offset; returns the sum of rewards."""
    rng = np.random.default_rng(seed)
    total = 0.0
    while not game.done:
        move = int(rng.choice(np.flatnonzero(game.legal)))
        places = game.target.fast_bytes // game.target.alignment
        named = int(rng.integers(places)) * game.target.alignment
        reward, _ = game.step(move, named if rng.random() < 0.5 and game.allows(move, named) else None)
        total += reward
    return total


@settings(max_examples=200, deadline=None)
@given(programs(), st.integers(0, 2**16))
def test_any_line_with_named_offsets_is_a_legal_mapping(program: Program, seed: int) -> None:
    game = MallocGame(program, objective="msa", trivial_share=0.0)
    asked = not game.done
    total = play_to_the_end(game, seed)
    mapping = game.mapping()
    assert verify(program, game.target, mapping) == []
    if asked:
        assert total == pytest.approx(game.all_hbm_s - game.latency_s, rel=1e-9, abs=1e-12)


@settings(max_examples=100, deadline=None)
@given(programs(), st.integers(0, 2**16), st.booleans())
def test_following_any_mapping_is_a_line_that_replays(program: Program, seed: int, name_offsets: bool) -> None:
    made = MallocGame(program, objective="msa", trivial_share=0.0)
    play_to_the_end(made, seed)
    game = MallocGame(program, objective="msa", trivial_share=0.0)
    line = follow(game, made.mapping(), name_offsets)
    assert game.done
    assert verify(program, game.target, line.mapping) == []
    again = MallocGame(program, objective="msa", trivial_share=0.0)
    line.replay(again)
    assert again.done
    assert again.latency_s == game.latency_s
    assert again.decisions == len(line.moves)
    differs = np.flatnonzero(line.wanted != line.mapping.access_fast)
    assert sorted(a for rows in (*line.lost.values(), *line.gained.values()) for a in rows) == differs.tolist()
    assert set(line.lost) <= set(LOST)
    assert set(line.gained) <= {HELD, TRIVIAL, TIED}
    counted = report(line, game)
    assert counted["latency_s"]["msa"]["line"] == game.latency_s
    assert counted["accesses_alike"] == program.num_accesses - len(differs)


def reader(**fields: object) -> Program:
    """`w` is read by `b` alone, which no prefetch can reach in time: `a` leaves HBM no idle time."""
    return make_program(
        [("a", 0.0, ["x"], ["y"]), ("b", 0.0, ["w", "y"], ["z"]), ("c", 0.0, ["z"], ["out"])],
        {
            "x": {"size": 64, "input": True, "fast_allowed": False},
            "y": 8,
            "w": {"size": 64, "input": True},
            "z": 8,
            "out": {"size": 8, "output": True},
        },
        **fields,  # type: ignore[arg-type]
    )


def until(game: MallocGame, name: str, move: int) -> None:
    """Drops, or else stays, until the decision about buffer `name`, and makes `move` there."""
    while game.program.buffer_names[game.program.access_buffer[game.access]] != name:
        game.step(DROP if game.legal[DROP] else NO_COPY)
    game.step(move)


def test_a_cross_program_prefetch_is_free_when_steady_and_stays_to_the_end_where_nothing_wants_its_room() -> None:
    program = reader()
    game = MallocGame(program, objective="msa", trivial_share=0.0)
    until(game, "w", NO_COPY)
    while not game.done:
        game.step(DROP if game.legal[DROP] else NO_COPY)
    mapping = game.mapping()
    assert verify(program, program.target, mapping) == []
    w = program.buffer_names.index("w")
    assert mapping.residencies[:, :3].tolist() == [[w, 0, 2]]
    assert mapping.copies[:, :4].tolist() == [[w, CROSS_PROGRAM, -1, 1]]
    assert game.latency_s == pytest.approx(game.all_hbm_s - (0.64 - 0.064))
    cold = simulate(program, program.target, mapping, start="cold").latency_s
    assert cold == pytest.approx(game.latency_s + 0.64), "a cold start waits for all of it"


def test_room_of_a_cross_program_prefetch_may_be_taken_after_its_last_use_and_it_is_fetched_again_at_the_end() -> None:
    # 128 bytes: `w` and `big` do not fit side by side.
    program = make_program(
        [
            ("a", 1.0, ["w"], ["y"]),
            ("b", 1.0, ["y"], ["big"]),
            ("c", 1.0, ["big"], ["z"]),
            ("d", 1.0, ["z"], ["u"]),
            ("e", 0.2, ["u"], ["out"]),
        ],
        {
            "w": {"size": 80, "input": True},
            "y": 8,
            "big": 80,
            "z": 8,
            "u": 8,
            "out": {"size": 8, "output": True, "fast_allowed": False},
        },
    )
    game = MallocGame(program, objective="msa", trivial_share=0.0)
    until(game, "w", NO_COPY)
    until(game, "big", NO_COPY)
    while not game.done:
        game.step(NO_COPY if game.legal[NO_COPY] else DROP)
    mapping = game.mapping()
    assert verify(program, program.target, mapping) == []
    w = program.buffer_names.index("w")
    # `d` hides all of it, before `e` would not be enough.
    assert mapping.residencies[mapping.residencies[:, 0] == w, 1:4].tolist() == [[0, 0, 0], [3, 4, 0]]
    assert mapping.copies[:, :4].tolist() == [[w, CROSS_PROGRAM, -1, 0], [w, PREFETCH, 2, 5]]
    assert simulate(program, program.target, mapping).waited_s == 0.0


def test_what_lives_to_the_end_leaves_the_room_of_a_cross_program_prefetch_alone() -> None:
    program = make_program(
        [("a", 1.0, ["w"], ["y"]), ("b", 1.0, ["y"], ["big"]), ("c", 1.0, ["big"], ["out"])],
        {
            "w": {"size": 80, "input": True},
            "y": 8,
            "big": 80,
            "out": {"size": 8, "output": True, "fast_allowed": False},
        },
    )
    game = MallocGame(program, objective="msa", trivial_share=0.0)
    until(game, "w", NO_COPY)
    while not game.done:
        assert program.buffer_names[program.access_buffer[game.access]] != "big"
        game.step(NO_COPY if game.legal[NO_COPY] else DROP)
    assert game.mapping().residencies[0, :3].tolist() == [0, 0, 2]


@settings(max_examples=300, deadline=None)
@given(programs(max_instructions=14), st.integers(0, 2**16))
def test_any_line_with_a_cross_program_prefetch_is_a_legal_mapping(program: Program, seed: int) -> None:
    rng = np.random.default_rng(seed)
    game = MallocGame(program, objective="msa", trivial_share=0.0)
    total, asked = 0.0, not game.done
    while not game.done:
        # At the first read of an input it is the previous execution that has fetched it.
        moves = [NO_COPY] if game.legal[NO_COPY] and rng.random() < 0.7 else np.flatnonzero(game.legal)
        total += game.step(int(rng.choice(moves)))[0]
    assert verify(program, game.target, game.mapping()) == []
    if asked:
        assert total == pytest.approx(game.all_hbm_s - game.latency_s, rel=1e-9, abs=1e-12)


def test_only_one_input_is_prefetched_across_programs() -> None:
    program = make_program(
        [("a", 0.0, ["u", "v"], ["out"])],
        {"u": {"size": 32, "input": True}, "v": {"size": 32, "input": True}, "out": {"size": 8, "output": True}},
    )
    game = MallocGame(program, objective="msa", trivial_share=0.0)
    assert game.legal.tolist() == [True, False, True]
    game.step(NO_COPY)
    assert program.buffer_names[program.access_buffer[game.access]] != "v", "`v` is only to be had from HBM now"


def waiting() -> Program:
    """`big` is written back and read from HBM later; `next` needs its room before idle time has brought it out."""
    return make_program(
        [
            ("a", 0.0, ["x"], ["big"]),
            ("b", 0.0, ["x"], ["next"]),
            ("c", 0.0, ["next"], ["u"]),
            ("d", 0.0, ["next"], ["v"]),
            ("e", 0.0, ["next", "big"], ["out"]),
        ],
        {
            "x": {"size": 8, "input": True, "fast_allowed": False},
            "big": 80,
            "next": 80,
            "u": {"size": 8, "fast_allowed": False},
            "v": {"size": 8, "fast_allowed": False},
            "out": {"size": 8, "output": True, "fast_allowed": False},
        },
    )


def test_a_result_may_wait_until_a_write_back_lets_go_of_its_room() -> None:
    program = waiting()
    game = MallocGame(program, objective="msa", trivial_share=0.0)
    until(game, "big", COPY)
    until(game, "next", NO_COPY)
    while not game.done:
        game.step(NO_COPY if game.legal[NO_COPY] else DROP)
    mapping = game.mapping()
    assert verify(program, program.target, mapping) == []
    big, following = program.buffer_names.index("big"), program.buffer_names.index("next")
    rows = sorted(mapping.residencies[:, :4].tolist())
    assert rows == [[big, 0, 0, 0], [following, 1, 4, 0]]
    assert simulate(program, program.target, mapping).waited_s == pytest.approx(0.8)


def test_a_read_from_hbm_may_wait_for_the_write_back() -> None:
    program = make_program(
        [("a", 0.0, ["x"], ["y"]), ("b", 0.0, ["y"], ["z"]), ("c", 0.0, ["y", "z"], ["out"])],
        {
            "x": {"size": 8, "input": True, "fast_allowed": False},
            "y": 64,
            "z": {"size": 8, "fast_allowed": False},
            "out": {"size": 8, "output": True, "fast_allowed": False},
        },
    )
    game = MallocGame(program, objective="msa", trivial_share=0.0)
    game.step(COPY)
    assert game.legal.tolist() == [True, False, True]
    game.step(DROP)
    while not game.done:
        game.step(DROP)
    assert verify(program, program.target, game.mapping()) == []
    assert simulate(program, program.target, game.mapping()).waited_s == pytest.approx(0.64)


def test_a_move_takes_the_offset_it_names_or_is_refused() -> None:
    program = waiting()
    game = MallocGame(program, objective="msa", trivial_share=0.0)
    assert game.allows(NO_COPY, 48)
    for move, offset in ((NO_COPY, 52), (NO_COPY, 49), (NO_COPY, -8), (DROP, 0), (7, 0)):
        assert not game.allows(move, offset)
    with pytest.raises(ValueError, match="cannot be made at offset 49"):
        game.step(NO_COPY, 49)
    game.step(NO_COPY, 48)
    while not game.done:
        game.step(NO_COPY if game.legal[NO_COPY] else DROP)
    assert game.mapping().residencies[:, 3].tolist() == [48]


RESULTS = json.loads(
    (Path(__file__).parents[3] / "docs" / "results" / "representability.json").read_text(encoding="utf-8")
)
# Where the game stays further behind XLA's mapping than elsewhere: a buffer of 39 MB finds no offset.
BEHIND = {"conformer-scan-b8-v4": 1.23}


@pytest.mark.parametrize(
    "name",
    sorted(path.name.removesuffix(".json.gz") for path in PROGRAMS_FOLDER.glob("*.gz")),
)
def test_xlas_own_mapping_replays_as_a_line_of_play(name: str) -> None:
    program = load(name)
    assert program.production is not None
    per_pass = per_pass_of(program, program.production)
    game = MallocGame(program, objective="msa", trivial_share=0.0, per_pass=per_pass)
    line = follow(game, program.production)
    assert verify(program, game.target, line.mapping) == []
    counted = report(line, game)
    latency_s = counted["latency_s"]["msa"]
    held = RESULTS.get(name)
    if held is not None and held["sha256"] == program.sha256:
        was = held["every"]
        assert latency_s["line"] <= was["latency_s"]["msa"]["line"] * (1 + 1e-3), "as the page says, or better"
        assert counted["bytes_alike"] >= was["bytes_alike"] - 1e-3
    assert "loop" in counted["lost"] or latency_s["line"] <= latency_s["mapping"] * BEHIND.get(name, 1.08)


def test_most_of_xlas_mappings_replay_without_loss() -> None:
    best = [
        min(entry[key]["latency_s"]["msa"]["line"] for key in ("every", "named", "own"))
        / entry["every"]["latency_s"]["msa"]["mapping"]
        for entry in RESULTS.values()
    ]
    assert len(best) >= 40
    assert np.mean(np.array(best) <= 1.005) >= 0.9
