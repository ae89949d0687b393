"""Buffers that a loop reads or carries: brought to fast memory before it, and held over the whole of it."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from programs import make_mapping, make_program, programs
from scanned_cases import SCANNED, load_scanned

from mallocmuzero.env.game.game import MallocGame
from mallocmuzero.env.game.moves import COPY, DROP, NO_COPY
from mallocmuzero.env.game.replay_mapping import follow
from mallocmuzero.env.physics.simulator import simulate
from mallocmuzero.env.program.mapping import CROSS_PROGRAM, PREFETCH, WRITE_BACK
from mallocmuzero.env.program.program import Program
from mallocmuzero.env.verifier.verify import verify
from mallocmuzero.env.workloads import load


def weights(**fields: object) -> Program:
    """Instruction 0 makes `y`; the loop of 1 and 2 reads `w` and `y`, and updates `s`; 3 reads `s`."""
    return make_program(
        [
            ("a", 1.0, [], ["y"]),
            ("b", 0.0, ["w", "y"], ["u"]),
            ("c", 0.0, ["w", "u", "s"], ["s"]),
            ("d", 0.0, ["s"], ["out"]),
        ],
        {
            "w": {"size": 96, "input": True},
            "s": {"size": 8, "input": True},
            "y": 8,
            "u": 8,
            "out": {"size": 8, "output": True},
        },
        loops=[(1, 2, 10)],
        **fields,  # type: ignore[arg-type]
    )


def play(game: MallocGame, moves: dict[str, int], default: int = DROP) -> list[str]:
    """Plays `moves[buffer]` where legal, else `default`; returns the buffers decided, in order."""
    asked = []
    while not game.done:
        name = game.program.buffer_names[game.program.access_buffer[game.access]]
        asked.append(name)
        move = moves.get(name, default)
        game.step(move if game.legal[move] else int(np.flatnonzero(game.legal)[0]))
    return asked


def test_what_a_loop_reads_is_prefetched_before_it_and_held_over_it() -> None:
    program = weights()
    game = MallocGame(program, objective="msa", trivial_share=0.0)
    asked = play(game, {"w": COPY})
    assert asked.count("w") == 1, "the first read in the loop decides the second"
    mapping = game.mapping()
    w = program.buffer_names.index("w")
    (copy,) = mapping.copies.tolist()
    assert copy[:4] == [w, PREFETCH, -1, 1]
    assert mapping.residencies[:, :3].tolist() == [[w, 0, 2]]
    assert mapping.access_fast[program.access_buffer == w].all()
    assert verify(program, game.target, mapping) == []
    # `a` leaves 0.92 of the 0.96 s to the prefetch; the loop waits for the rest once, not in every iteration.
    assert simulate(program, game.target, mapping).waited_s == pytest.approx(0.04)
    assert game.saved_s == pytest.approx(game.all_hbm_s - game.latency_s)


def test_dropped_before_a_loop_it_is_read_from_hbm_in_all_of_it() -> None:
    program = weights()
    game = MallocGame(program, objective="msa", trivial_share=0.0)
    assert play(game, {}).count("w") == 1
    assert game.latency_s == pytest.approx(game.all_hbm_s)


def test_a_prefetch_before_a_loop_is_worth_what_all_iterations_save() -> None:
    def is_legal(trips: int) -> bool:
        program = make_program(
            [("a", 0.0, [], ["y"]), ("b", 0.0, ["w"], ["u"])],
            {"w": {"size": 80, "input": True}, "y": 8, "u": 8},
            loops=[(1, 1, trips)],
        )
        game = MallocGame(program, objective="msa", trivial_share=0.0)
        game.step(DROP)
        assert program.buffer_names[program.access_buffer[game.access]] == "w"
        return bool(game.legal[COPY])

    # The wait of 0.8 s is one for all iterations, each of which gains 0.72 s.
    assert not is_legal(trips=1)
    assert is_legal(trips=2)


def test_a_result_made_before_a_loop_is_held_to_its_end() -> None:
    # Fast memory holds 128 bytes: `y`, last read by the loop's first instruction, must not make room for `u`.
    program = make_program(
        [("a", 0.0, [], ["y"]), ("b", 0.0, ["y"], ["t"]), ("c", 0.0, [], ["u"]), ("d", 0.0, ["u"], ["v"])],
        {"y": 96, "t": 8, "u": 64, "v": 8},
        loops=[(1, 3, 4)],
    )
    game = MallocGame(program, objective="msa", trivial_share=0.0)
    play(game, {"t": DROP, "v": DROP}, default=NO_COPY)
    mapping = game.mapping()
    assert mapping.residencies[:, [0, 1, 2]].tolist() == [[0, 0, 3]]
    assert not mapping.access_fast[program.access_buffer == 2].any()
    assert verify(program, game.target, mapping) == []


def test_what_an_inner_loop_reads_is_held_over_the_outermost_that_only_reads_it() -> None:
    program = make_program(
        [("a", 1.0, [], ["y"]), ("b", 1.0, [], ["x"]), ("c", 0.0, ["w", "x"], ["u"]), ("d", 0.0, ["u"], ["v"])],
        {"w": {"size": 64, "input": True}, "x": 8, "y": 8, "u": 8, "v": 8},
        loops=[(1, 3, 5), (2, 2, 7)],
    )
    game = MallocGame(program, objective="msa", trivial_share=0.0)
    play(game, {"w": COPY, "x": NO_COPY})
    w, x = (program.buffer_names.index(name) for name in "wx")
    assert {row[0]: row[1:3] for row in game.mapping().residencies.tolist()} == {w: [0, 3], x: [1, 2]}
    assert game.mapping().copies[:, [0, 2, 3]].tolist() == [[w, -1, 1]]
    assert verify(program, game.target, game.mapping()) == []


def carried(game: MallocGame, moves: dict[str, int], default: int = DROP) -> tuple[list[str], list[list[int]]]:
    """Plays and verifies; returns what was decided, and the copies as `[buffer, direction, start, end]`."""
    asked = play(game, moves, default)
    assert verify(game.program, game.target, game.mapping()) == []
    assert game.saved_s == pytest.approx(game.all_hbm_s - game.latency_s)
    return asked, game.mapping().copies[:, :4].tolist()


def test_what_a_loop_carries_is_decided_at_its_first_access_and_held_over_the_loop() -> None:
    program = weights()
    s = program.buffer_names.index("s")
    game = MallocGame(program, objective="msa", trivial_share=0.0)
    decided = []
    while not game.done:
        name = program.buffer_names[program.access_buffer[game.access]]
        if name == "s":
            decided.append(game.instruction)
        game.step(COPY if name == "s" and len(decided) == 1 else DROP)
    assert decided == [2, 3], "the read in the loop decides the write; after the loop there is one more read"
    assert game.mapping().residencies[:, :3].tolist() == [[s, 0, 2]]
    assert game.mapping().access_fast[program.access_buffer == s].tolist() == [True, True, False]
    # Fetched before the loop and written back after it.
    assert game.mapping().copies[:, :4].tolist() == [[s, PREFETCH, -1, 1], [s, WRITE_BACK, 2, 3]]
    assert verify(program, game.target, game.mapping()) == []
    assert game.saved_s == pytest.approx(game.all_hbm_s - game.latency_s)


def test_what_a_loop_carried_is_not_written_back_if_it_is_read_from_fast_memory() -> None:
    program = weights()
    game = MallocGame(program, objective="msa", trivial_share=0.0)
    play(game, {"s": COPY}, default=NO_COPY)
    s = program.buffer_names.index("s")
    assert game.mapping().access_fast[program.access_buffer == s].all()
    assert [s, WRITE_BACK] not in game.mapping().copies[:, :2].tolist()
    assert verify(program, game.target, game.mapping()) == []


def test_left_in_hbm_a_carried_buffer_stays_there_in_all_of_the_loop() -> None:
    program = weights()
    game = MallocGame(program, objective="msa", trivial_share=0.0)
    asked, copies = carried(game, {})
    assert (asked.count("s"), copies) == (1, [])  # after the loop there is no window to fetch it in
    assert game.latency_s == pytest.approx(game.all_hbm_s)


def accumulator(output: bool) -> Program:
    """Instruction 0 makes `s`, the loop of 1 updates it, 2 makes something else."""
    return make_program(
        [("a", 0.0, [], ["s"]), ("b", 0.0, ["s"], ["s"]), ("c", 1.0, [], ["y"])],
        {"s": {"size": 40, "output": output}, "y": 8},
        loops=[(1, 1, 10)],
    )


def test_an_output_that_a_loop_carries_is_written_back_by_the_game() -> None:
    game = MallocGame(accumulator(output=True), objective="msa", trivial_share=0.0)
    _, copies = carried(game, {"s": NO_COPY})
    assert copies == [[0, WRITE_BACK, 1, 3]]
    assert game.mapping().residencies[:, :3].tolist() == [[0, 0, 2]]
    game = MallocGame(accumulator(output=False), objective="msa", trivial_share=0.0)
    assert carried(game, {"s": NO_COPY})[1] == []


def test_what_a_loop_writes_before_it_reads_has_its_room_from_the_loops_first_instruction() -> None:
    # `x` is last used by the loop's first instruction; `s`, written by its second, may not take that room.
    program = make_program(
        [("a", 0.0, [], ["x"]), ("b", 0.0, ["x"], ["t"]), ("c", 0.0, ["t"], ["s"]), ("d", 0.0, ["s"], ["v"])],
        {"x": 96, "t": 8, "s": 64, "v": 8},
        loops=[(1, 2, 4)],
    )
    s = program.buffer_names.index("s")
    game = MallocGame(program, objective="msa", trivial_share=0.0)
    carried(game, {"x": NO_COPY, "s": NO_COPY})
    assert s not in game.mapping().residencies[:, 0]
    game = MallocGame(program, objective="msa", trivial_share=0.0)
    carried(game, {"s": NO_COPY})
    assert game.mapping().residencies[:, :3].tolist() == [[s, 1, 3]]


def test_a_wait_before_a_loop_is_not_one_in_every_pass() -> None:
    # `a` leaves no time to write `s` back, which has to be out before the loop.
    program = make_program(
        [("a", 0.0, [], ["s"]), ("b", 0.0, ["s"], ["t"]), ("c", 0.0, ["s"], ["u"])],
        {"s": 64, "t": 8, "u": 8},
        loops=[(1, 1, 10)],
    )
    game = MallocGame(program, objective="msa", trivial_share=0.0)
    before = game.saved_s
    game.step(COPY)
    assert before + 0.64 - 0.064 - 0.64 == pytest.approx(game.saved_s)


def test_xlas_mapping_of_a_training_step_that_carries_its_gradients_is_a_line_of_play() -> None:
    program = load("lstm-train-b64-s32")
    assert program.production is not None
    line = follow(MallocGame(program), program.production)
    for model, (mapping, ours) in line.latency_s.items():
        assert ours / mapping == pytest.approx(1.0, abs=0.002), model


def test_a_loop_may_read_what_the_previous_execution_has_prefetched() -> None:
    program = weights()
    game = MallocGame(program, objective="msa", trivial_share=0.0)
    play(game, {"w": NO_COPY})
    (copy,) = game.mapping().copies.tolist()
    assert copy[1:4] == [CROSS_PROGRAM, -1, 1]
    assert game.mapping().residencies[:, 1:3].tolist() == [[0, 3]]
    assert verify(program, game.target, game.mapping()) == []


def test_a_mapping_that_holds_weights_over_a_loop_is_a_line_of_play() -> None:
    program = weights()
    mapping = make_mapping(
        program, [("b", "w"), ("c", "w")], [("w", 0, 2, 32)], [{"buffer": "w", "start": -1, "end": 1}]
    )
    line = follow(MallocGame(program, objective="msa", trivial_share=0.0), mapping)
    assert line.lost == {}
    assert line.mapping.residencies.tolist() == mapping.residencies.tolist()
    assert line.mapping.copies.tolist() == mapping.copies.tolist()


@settings(max_examples=300, deadline=None)
@given(programs(max_instructions=14), st.integers(0, 2**16), st.sampled_from([0.0, 1e-5, 0.05]))
def test_any_line_of_a_program_with_loops_is_a_legal_mapping(program: Program, seed: int, trivial_share: float) -> None:
    """Prefetches are favoured, and some moves name offsets."""
    assume(len(program.loop_trips) > 0)
    game = MallocGame(program, objective="msa", trivial_share=trivial_share)
    rng = np.random.default_rng(seed)
    asked, total = not game.done, 0.0
    while not game.done:
        move = COPY if game.legal[COPY] and rng.random() < 0.5 else int(rng.choice(np.flatnonzero(game.legal)))
        offset = int(rng.integers(game.target.fast_bytes // game.target.alignment)) * game.target.alignment
        total += game.step(move, offset if rng.random() < 0.3 and game.allows(move, offset) else None)[0]
    mapping = game.mapping()
    assert verify(program, game.target, mapping) == []
    if asked:
        assert total == pytest.approx(game.all_hbm_s - game.latency_s, rel=1e-9, abs=1e-12)


def given_up(last: int) -> Program:
    """The loop of 1 to 5 reads `w` first; `t`, made by 2 and read until `last`, does not fit beside it."""
    body = [
        ("b", 1.0, ["w"], ["u"]),
        *((f"m{t}", 1.0, ["t"] if t > 2 and t <= last else [], [f"v{t}"]) for t in range(2, 6)),
    ]
    body[1] = ("make", 1.0, ["u"], ["t"])
    return make_program(
        [("a", 1.0, [], ["y"]), *body, ("d", 1.0, ["w"], ["out"])],
        {
            "w": {"size": 96, "input": True},
            "t": 64,
            "y": 8,
            "u": 8,
            **{f"v{t}": 8 for t in range(3, 6)},
            "out": {"size": 8, "output": True},
        },
        loops=[(1, 5, 10)],
    )


def test_what_a_loop_reads_gives_its_place_to_what_is_gone_in_time() -> None:
    program = given_up(last=3)
    game = MallocGame(program, objective="msa", trivial_share=0.0)
    play(game, {"w": COPY, "t": NO_COPY})
    mapping = game.mapping()
    w, t = (program.buffer_names.index(name) for name in "wt")
    # It is there for the next pass, and for what follows the loop.
    assert [row[1:3] for row in mapping.residencies.tolist() if row[0] == w] == [[0, 1], [4, 6]]
    assert [row[1:3] for row in mapping.residencies.tolist() if row[0] == t] == [[2, 3]]
    assert [copy[1:4] for copy in mapping.copies.tolist()] == [[PREFETCH, -1, 1], [PREFETCH, 3, 6]]
    assert mapping.access_fast[np.isin(program.access_buffer, [w, t])].all()
    assert verify(program, game.target, mapping) == []
    assert game.latency_s == pytest.approx(simulate(program, game.target, mapping).latency_s)
    assert game.saved_s == pytest.approx(game.all_hbm_s - game.latency_s)


def test_what_is_there_to_the_end_of_the_body_cannot_take_that_place() -> None:
    program = given_up(last=5)
    game = MallocGame(program, objective="msa", trivial_share=0.0)
    play(game, {"w": COPY, "t": NO_COPY})
    w, t = (program.buffer_names.index(name) for name in "wt")
    assert not game.mapping().access_fast[program.access_buffer == t].any()
    assert game.mapping().access_fast[program.access_buffer == w].all()
    assert verify(program, game.target, game.mapping()) == []


def looped(seed: int) -> Program:
    """Returns a random program of nested loops that read large inputs several times."""
    rng = np.random.default_rng(seed)
    steps = int(rng.integers(7, 17))
    first = int(rng.integers(0, steps // 3))
    last = int(rng.integers(first + 3, steps))
    loops = [(first, last, int(rng.integers(1, 6)))]
    if last - first >= 4 and rng.random() < 0.6:
        inner = int(rng.integers(first + 1, last - 1))
        loops.append((inner, int(rng.integers(inner, last + 1)), int(rng.integers(1, 5))))
    inputs = [f"w{k}" for k in range(int(rng.integers(1, 5)))]
    buffers: dict[str, object] = {name: {"size": 8 * int(rng.integers(1, 13)), "input": True} for name in inputs}
    instructions = []
    for t in range(steps):
        made = [f"t{k}" for k in range(max(0, t - 3), t)]
        reads = [name for name in inputs if rng.random() < 0.35] + [name for name in made if rng.random() < 0.5]
        writes = [f"t{t}"]
        if made and rng.random() < 0.15:
            carried = made[int(rng.integers(len(made)))]
            reads += [carried] if carried not in reads else []
            writes.append(carried)
        buffers[f"t{t}"] = {"size": 8 * int(rng.integers(1, 15)), "output": bool(rng.random() < 0.1)}
        instructions.append((f"i{t}", float(rng.choice([0.0, 0.2, 1.0])), reads, writes))
    return make_program(instructions, buffers, loops=loops)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(60))
def test_random_games_with_loops_are_legal_and_priced_right(seed: int) -> None:
    program, rng = looped(seed), np.random.default_rng(seed)
    game = MallocGame(program, objective="msa", trivial_share=0.0)
    for _ in range(6):
        game.reset()
        while not game.done:
            offset, move = 8 * int(rng.integers(16)), int(rng.integers(2))
            if rng.random() < 0.3 and game.allows(move, offset):
                game.step(move, offset)
            elif rng.random() < 0.6:
                game.step(next(move for move in (COPY, NO_COPY, DROP) if game.legal[move]))
            else:
                game.step(int(rng.choice(np.flatnonzero(game.legal))))
        assert verify(program, game.target, game.mapping()) == []
        assert game.latency_s == pytest.approx(simulate(program, game.target, game.mapping()).latency_s, rel=1e-9)


@pytest.mark.parametrize("name", SCANNED)
def test_xlas_mapping_of_a_scan_is_nearly_a_line_of_play(name: str) -> None:
    program = load_scanned(name)
    assert program.production is not None
    game = MallocGame(program, objective="msa", trivial_share=0.0)
    line = follow(game, program.production)
    assert verify(program, game.target, line.mapping) == []
    followed_s, line_s = line.latency_s["msa"]
    assert line_s <= followed_s * (1.11 if name == "vit-remat-v4" else 1.04)
