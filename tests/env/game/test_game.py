"""mallocGame: every line of play ends in a mapping that verifies, and its rewards sum to what the simulator saves."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from programs import TARGET, make_program, programs, programs_with_cycles

from mallocmuzero.env.errors import UserError
from mallocmuzero.env.game.game import MallocGame, play_line
from mallocmuzero.env.game.moves import COPY, DROP, NO_COPY
from mallocmuzero.env.game.observation import GRID, GRID_SIZE, OBSERVATION_SIZE
from mallocmuzero.env.game.records import NEVER
from mallocmuzero.env.physics.cost import CYCLES, MODELS, MSA, all_hbm_latency, floor_latency, instruction_times
from mallocmuzero.env.physics.objective import OBJECTIVES
from mallocmuzero.env.physics.simulator import simulate
from mallocmuzero.env.program.mapping import PREFETCH, WRITE_BACK
from mallocmuzero.env.program.program import RESULT, Program
from mallocmuzero.env.program.target import Target
from mallocmuzero.env.verifier.verify import verify


def play_randomly(game: MallocGame, seed: int) -> float:
    """Plays to the end; returns the sum of rewards."""
    rng = np.random.default_rng(seed)
    total = 0.0
    while not game.done:
        assert game.legal.sum() > 1, "a decision has a choice"
        reward, _ = game.step(int(rng.choice(np.flatnonzero(game.legal))))
        total += reward
    return total


@settings(max_examples=150, deadline=None)
@given(programs(), st.integers(0, 2**16), st.sampled_from([0.0, 1e-5, 0.05]))
def test_any_line_of_play_is_a_legal_mapping_whose_rewards_are_the_simulated_saving(
    program: Program, seed: int, trivial_share: float
) -> None:
    game = MallocGame(program, trivial_share=trivial_share)
    asked = not game.done
    total = play_randomly(game, seed)
    mapping = game.mapping()
    assert verify(program, game.target, mapping) == []
    simulated = simulate(program, game.target, mapping).latency_s
    assert game.latency_s == simulated
    if asked:
        assert total == pytest.approx(game.all_hbm_s - simulated, rel=1e-9, abs=1e-12)
    assert simulated >= 0.0


@settings(max_examples=200, deadline=None)
@given(programs(max_instructions=14), st.integers(0, 2**16))
def test_any_line_with_any_hints_is_a_legal_mapping(program: Program, seed: int) -> None:
    """Offsets and times that no mapping has given, some of them of no use."""
    rng = np.random.default_rng(seed)
    places, span = TARGET.fast_bytes // TARGET.alignment, program.num_instructions
    hints = np.stack(
        [
            rng.integers(-2, places + 1, program.num_accesses) * TARGET.alignment,
            program.access_instruction - rng.integers(-1, span + 2, program.num_accesses),
            program.access_instruction + rng.integers(0, span + 2, program.num_accesses),
        ],
        axis=1,
    )
    game = MallocGame(program, objective="msa", trivial_share=0.0, hints=hints)
    asked, total = not game.done, 0.0
    while not game.done:
        move, buffer = int(rng.choice(np.flatnonzero(game.legal))), int(program.access_buffer[game.access])
        named = int(rng.integers(places)) * TARGET.alignment
        allowed = rng.random() < 0.5 and game.allows(move, named)
        total += game.step(move, named if allowed else None)[0]
        assert not allowed or game.state.buffer["offset"][buffer] == named, "a hint does not overrule the move"
    assert verify(program, game.target, game.mapping()) == []
    if asked:
        assert total == pytest.approx(game.all_hbm_s - game.latency_s, rel=1e-9, abs=1e-12)


@settings(max_examples=150, deadline=None)
@given(programs_with_cycles(), st.sampled_from(OBJECTIVES), st.integers(0, 2**16), st.sampled_from([0.0, 1e-5, 0.05]))
def test_rewards_are_the_saving_that_the_objective_counts(
    program: Program, objective: str, seed: int, trivial_share: float
) -> None:
    game = MallocGame(program, objective=objective, trivial_share=trivial_share)
    asked = not game.done
    total = play_randomly(game, seed)
    mapping = game.mapping()
    assert verify(program, game.target, mapping) == []
    seconds = {model: simulate(program, game.target, mapping, model).latency_s for model in MODELS}
    base = {
        model: all_hbm_latency(program, game.target, model)
        if program.production is None
        else simulate(program, game.target, program.production, model).latency_s
        for model in MODELS
    }
    if objective == "robust":
        ratios = [seconds[model] / base[model] for model in MODELS if base[model] > 0]
        if len(ratios) == len(MODELS):
            assert game.latency_s == pytest.approx(max(ratios) * base["msa"])
    else:
        assert game.latency_s == seconds[objective]
    if asked:
        assert total == pytest.approx(game.all_hbm_s - game.latency_s, rel=1e-9, abs=1e-12)


@settings(max_examples=150, deadline=None)
@given(programs_with_cycles(), st.sampled_from(OBJECTIVES), st.integers(0, 2**16))
def test_the_games_account_of_its_instructions_is_the_cost_models(program: Program, objective: str, seed: int) -> None:
    """The game's seconds, move by move and without waits, sum to those of the cost models for its placement."""
    game = MallocGame(program, objective=objective, trivial_share=0.0, msa_share=0.3)
    play_randomly(game, seed)
    clock = game.judge.clock(0.3)
    fast = game.mapping().access_fast
    run_s = np.zeros(program.num_instructions)
    for model, weight in ((MSA, clock.msa), (CYCLES, clock.cycles)):
        run_s += weight * instruction_times(program, game.target, fast, model)[0]
    waited = float(game.state.step["wait_s"][:-1] @ program.weight + game.state.step["wait_s"][-1])
    assert game.saved_s + waited == pytest.approx(game.all_hbm_s - run_s @ program.weight, rel=1e-9, abs=1e-9)


@settings(max_examples=100, deadline=None)
@given(programs(max_instructions=14), st.integers(0, 2**16))
def test_what_is_in_fast_memory_is_listed_by_offset(program: Program, seed: int) -> None:
    game = MallocGame(program, trivial_share=0.0)
    rng = np.random.default_rng(seed)
    while not game.done:
        game.step(int(rng.choice(np.flatnonzero(game.legal))))
        held, buffer = game.state.holders[: game.state.now.holders], game.state.buffer
        owners = held["buffer"]
        assert sorted(owners.tolist()) == np.flatnonzero(buffer["resident"]).tolist()
        np.testing.assert_array_equal(held["low"], buffer["offset"][owners])
        np.testing.assert_array_equal(held["high"] - held["low"], game.tables.buffer["aligned"][owners])
        assert (held["high"][:-1] <= held["low"][1:]).all(), "residents overlap"
        following = game.tables.access["next"][buffer["touched"][owners]]
        np.testing.assert_array_equal(held["last"] == 1, following < 0)


@settings(max_examples=60, deadline=None)
@given(st.one_of(programs(), programs_with_cycles()), st.integers(0, 2**16))
def test_observations_are_finite_and_do_not_change_the_game(program: Program, seed: int) -> None:
    watched, unwatched = MallocGame(program), MallocGame(program)
    rng = np.random.default_rng(seed)
    while not watched.done:
        seen = watched.observe()
        assert seen.shape == (OBSERVATION_SIZE,)
        assert np.all(np.isfinite(seen))
        grid = seen[:GRID_SIZE].reshape(GRID)
        assert grid.min() >= -1e-6
        move = int(rng.choice(np.flatnonzero(watched.legal)))
        watched.step(move)
        unwatched.step(move)
    assert unwatched.done
    assert np.array_equal(watched.mapping().residencies, unwatched.mapping().residencies)
    assert np.array_equal(watched.mapping().copies, unwatched.mapping().copies)


@settings(max_examples=40, deadline=None)
@given(programs(), st.integers(0, 2**16))
def test_a_line_of_play_replays_to_the_same_game_in_python_and_compiled(program: Program, seed: int) -> None:
    game = MallocGame(program)
    play_randomly(game, seed)
    again, compiled = MallocGame(program), MallocGame(program)
    again.play(game.actions)
    assert play_line(compiled, game.actions) == game.actions
    for copy in (again, compiled):
        assert copy.done
        assert copy.latency_s == game.latency_s
        assert np.array_equal(copy.mapping().residencies, game.mapping().residencies)


@settings(max_examples=40, deadline=None)
@given(programs(), st.integers(0, 2**16))
def test_a_clone_is_independent(program: Program, seed: int) -> None:
    game = MallocGame(program)
    if game.done:
        return
    game.step(int(np.flatnonzero(game.legal)[0]))
    copy = game.clone()
    actions = list(game.actions)
    play_randomly(copy, seed)
    assert game.actions == actions
    play_randomly(game, seed)
    assert game.actions == copy.actions
    assert game.latency_s == copy.latency_s


def chain(**fields: object) -> Program:
    """`y` is produced, set aside while `z` is made, and read again at the end. Fast memory holds 128 bytes."""
    return make_program(
        [
            ("a", 1.0, ["x"], ["y"]),
            ("b", 1.0, ["x"], ["z"]),
            ("c", 1.0, ["z"], ["u"]),
            ("d", 0.0, ["y", "u"], ["out"]),
        ],
        {"x": {"size": 16, "input": True}, "y": 64, "z": 16, "u": 16, "out": {"size": 16, "output": True}},
        **fields,  # type: ignore[arg-type]
    )


def play_by_name(game: MallocGame, moves: dict[str, int], default: int = DROP) -> None:
    """Plays `moves["instruction kind buffer"]`, else `default` if it is legal, else the first legal move."""
    while not game.done:
        access = game.access
        kind = "operand" if game.program.access_kind[access] == 0 else "result"
        t, b = game.program.access_instruction[access], game.program.access_buffer[access]
        name = f"{game.program.instruction_names[t]} {kind} {game.program.buffer_names[b]}"
        move = moves.get(name, default)
        game.step(move if game.legal[move] else int(np.flatnonzero(game.legal)[0]))


def _fast(game: MallocGame) -> tuple[np.ndarray, np.ndarray]:
    rows = game.mapping().access_fast
    return game.program.access_instruction[rows], game.program.access_buffer[rows]


def test_everything_dropped_is_all_in_hbm() -> None:
    game = MallocGame(chain(), trivial_share=0.0)
    play_by_name(game, {})
    assert game.latency_s == pytest.approx(game.all_hbm_s)
    assert len(game.mapping().residencies) == 0


def test_a_result_kept_in_fast_memory_is_held_until_its_last_use() -> None:
    program = chain()
    game = MallocGame(program, trivial_share=0.0)
    play_by_name(game, {"a result y": NO_COPY, "d operand y": NO_COPY})
    residencies = game.mapping().residencies
    assert residencies[:, :3].tolist() == [[program.buffer_names.index("y"), 0, 3]]
    assert len(game.mapping().copies) == 0


def test_a_result_copied_is_written_back_and_may_be_dropped_later() -> None:
    program = chain()
    game = MallocGame(program, trivial_share=0.0)
    play_by_name(game, {"a result y": COPY})
    mapping = game.mapping()
    (copy,) = mapping.copies.tolist()
    assert copy[1:4] == [WRITE_BACK, 0, 2], "`b` hides it, and nothing holds `y` in fast memory after `b`"
    assert verify(program, program.target, mapping) == []


def test_a_write_back_that_nothing_reads_is_left_out() -> None:
    game = MallocGame(chain(), trivial_share=0.0)
    play_by_name(game, {"a result y": COPY, "d operand y": NO_COPY})
    assert len(game.mapping().copies) == 0


def test_an_output_must_reach_hbm() -> None:
    program = chain()
    game = MallocGame(program, trivial_share=0.0)
    while program.access_buffer[game.access] != program.buffer_names.index("out"):
        game.step(DROP if game.legal[DROP] else NO_COPY)
    assert game.legal.tolist() == [False, True, True]


def updated_in_hbm() -> Program:
    """`c` updates `y` in place, and always writes it to HBM; `a` always writes `x` there."""
    program = make_program(
        [
            ("a", 0.1, [], ["x", "y"]),
            ("b", 0.1, ["x", "y"], ["z"]),
            ("c", 0.1, ["y", "z"], ["y"]),
            ("d", 0.1, ["y"], ["out"]),
        ],
        {"x": 16, "y": 16, "z": 16, "out": {"size": 16, "output": True}},
    )
    names = [(program.instruction_names[t], program.buffer_names[b]) for t, b in _touches(program)]
    results = program.access_kind == RESULT
    to_hbm = np.array([name in [("a", "x"), ("c", "y")] for name in names]) & results
    return dataclasses.replace(program, hbm_accesses=to_hbm)


def _touches(program: Program) -> list[tuple[int, int]]:
    return list(zip(program.access_instruction.tolist(), program.access_buffer.tolist(), strict=True))


def test_results_that_always_go_to_hbm_are_written_there_and_prefetched_later() -> None:
    program = updated_in_hbm()
    game = MallocGame(program, trivial_share=0.0)
    play_by_name(game, {"a result y": COPY, "b operand y": NO_COPY, "b operand x": COPY, "d operand y": COPY})
    mapping = game.mapping()
    assert verify(program, program.target, mapping) == []
    fast = {
        (program.instruction_names[t], program.buffer_names[b])
        for (t, b), is_fast in zip(_touches(program), mapping.access_fast.tolist(), strict=True)
        if is_fast
    }
    # What `c` is to read in HBM is written back; the operand that it updates there is not served from fast memory.
    assert ("a", "y") in fast
    assert fast.isdisjoint({("a", "x"), ("c", "y")})
    assert mapping.copies[:, 1].tolist().count(WRITE_BACK) == 1
    assert floor_latency(program, program.target) < floor_latency(
        dataclasses.replace(program, hbm_accesses=program.access_kind == RESULT), program.target
    )


def test_a_value_that_is_read_in_hbm_whatever_the_plan_must_reach_it() -> None:
    program = updated_in_hbm()
    game = MallocGame(program, trivial_share=0.0)
    while program.access_buffer[game.access] != program.buffer_names.index("y"):
        game.step(DROP if game.legal[DROP] else NO_COPY)
    assert game.legal.tolist() == [False, True, True]


def test_a_prefetch_takes_the_latest_window_that_hides_it() -> None:
    # `w` needs 1 s of HBM; `a`, `b` and `c` leave 0.8 s each, so the window is `b` and `c`.
    program = make_program(
        [("a", 1.0, [], ["p"]), ("b", 1.0, [], ["q"]), ("c", 1.0, [], ["r"]), ("d", 0.0, ["w"], ["s"])],
        {"p": 20, "q": 20, "r": 20, "s": 20, "w": {"size": 100, "input": True}},
    )
    game = MallocGame(program, trivial_share=0.0)
    play_by_name(game, {"d operand w": COPY})
    (copy,) = game.mapping().copies.tolist()
    assert copy[1:4] == [PREFETCH, 0, 3]
    assert simulate(program, program.target, game.mapping()).waited_s == 0.0


def hints_at(program: Program, name: str, hint: tuple[int, int, int]) -> NDArray[np.int64]:
    """Returns hints for the accesses of one buffer: offset, issue of a prefetch, end of a write-back."""
    hints = np.tile(np.array([-1, NEVER, NEVER], np.int64), (program.num_accesses, 1))
    hints[program.access_buffer == program.buffer_names.index(name)] = hint
    return hints


def test_a_prefetch_takes_the_window_and_the_offset_that_a_hint_gives() -> None:
    program = make_program(
        [("a", 1.0, [], ["p"]), ("b", 1.0, [], ["q"]), ("c", 1.0, [], ["r"]), ("d", 1.0, ["w"], ["s"])],
        {"p": 20, "q": 20, "r": 20, "s": 20, "w": {"size": 40, "input": True}},
    )
    game = MallocGame(program, trivial_share=0.0, hints=hints_at(program, "w", (64, 0, NEVER)))
    play_by_name(game, {"d operand w": COPY})
    (copy,) = game.mapping().copies.tolist()
    assert copy[1:4] == [PREFETCH, 0, 3], "`c` alone would hide it"
    assert game.mapping().residencies[:, 1:4].tolist() == [[1, 3, 64]]
    # While `p` lies there it begins later: as soon as `b`, which reads it, has run.
    busy = make_program(
        [("a", 1.0, [], ["p"]), ("b", 1.0, ["p"], ["q"]), ("c", 1.0, [], ["r"]), ("d", 1.0, ["w"], ["s"])],
        {"p": 72, "q": 20, "r": 20, "s": 20, "w": {"size": 40, "input": True}},
    )
    game = MallocGame(busy, trivial_share=0.0, hints=hints_at(busy, "w", (64, -1, NEVER)))
    play_by_name(game, {"a result p": NO_COPY, "b operand p": NO_COPY, "d operand w": COPY})
    (copy,) = game.mapping().copies.tolist()
    assert copy[1:4] == [PREFETCH, 1, 3]


def test_a_write_back_is_complete_when_a_hint_says() -> None:
    # `p` takes 0.8 s of HBM to get out; `b` hides 0.3 s of it, and `c` waits for the rest.
    program = make_program(
        [("a", 0.5, [], ["p"]), ("b", 0.3, [], ["q"]), ("c", 0.9, [], ["r"]), ("d", 0.9, ["p"], ["s"])],
        {"p": 80, **{name: {"size": 0, "fast_allowed": False} for name in "qrs"}},
    )
    for due, waits in ((2, [0.0, 0.0, 0.5, 0.0]), (NEVER, [0.0, 0.0, 0.0, 0.0])):
        game = MallocGame(program, trivial_share=0.0, hints=hints_at(program, "p", (-1, NEVER, int(due))))
        play_by_name(game, {"a result p": COPY})
        assert game.state.step["wait_s"][:4].tolist() == pytest.approx(waits)
        assert verify(program, game.target, game.mapping()) == []


def test_a_prefetch_that_stalls_is_legal_only_if_it_gains_more() -> None:
    def game_with(reads: int) -> MallocGame:
        program = make_program(
            [("a", 0.2, [], ["p"]), *((f"d.{i}", 0.0, ["w"], [f"s.{i}"]) for i in range(reads))],
            {"p": 8, "w": {"size": 80, "input": True}, **{f"s.{i}": 8 for i in range(reads)}},
        )
        game = MallocGame(program, trivial_share=0.0)
        while program.access_buffer[game.access] != 1:
            game.step(DROP)
        return game

    # One read gains 0.72 s; the prefetch needs 0.8 s and `a` hides 0.12 s of it.
    assert game_with(reads=2).legal[COPY], "two reads gain more than the wait of 0.68 s"
    game = game_with(reads=2)
    game.step(COPY)
    play_by_name(game, {}, default=NO_COPY)
    assert game.stalled_copies == 1
    assert simulate(game.program, game.target, game.mapping()).waited_s == pytest.approx(0.68)
    costly = make_program(
        [("a", 0.0, [], ["p"]), ("d", 0.7, ["w"], ["s"])], {"p": 8, "w": {"size": 80, "input": True}, "s": 8}
    )
    game = MallocGame(costly, trivial_share=0.0)
    game.step(DROP)
    assert game.legal.tolist() == [True, False, True], "waiting 0.8 s for `w` would gain less"


def test_room_is_taken_from_the_resident_that_loses_least() -> None:
    # 128 bytes; `p` and `q` are soft (valid in HBM); `q` is wanted much later than `p`.
    program = make_program(
        [
            ("z", 2.0, [], ["y"]),
            ("a", 2.0, ["p", "q"], ["s"]),
            ("b", 2.0, [], ["big"]),
            ("c", 0.0, ["big", "p"], ["t"]),
            ("d", 2.0, [], ["u"]),
            ("e", 0.0, ["q"], ["v"]),
        ],
        {
            **{name: {"size": 64, "input": True} for name in ("p", "q")},
            "big": 64,
            **dict.fromkeys("stuvy", 8),
        },
        target=Target("test", 128, 8, 100.0, 1000.0, 40, 40),
    )
    game = MallocGame(program, trivial_share=0.0)
    moves = {"a operand p": COPY, "a operand q": COPY, "b result big": NO_COPY, "c operand p": NO_COPY}
    play_by_name(game, moves)
    assert game.evictions == 1
    fast = {(int(t), program.buffer_names[b]) for t, b in zip(*_fast(game), strict=True)}
    assert fast == {(1, "p"), (1, "q"), (2, "big"), (3, "big"), (3, "p")}
    assert verify(program, game.target, game.mapping()) == []


def test_moves_that_are_not_legal_are_refused() -> None:
    game = MallocGame(chain(), trivial_share=0.0)
    illegal = int(np.flatnonzero(~game.legal)[0]) if not game.legal.all() else 7
    with pytest.raises(ValueError, match="not legal"):
        game.step(illegal)
    with pytest.raises(ValueError, match="not legal"):
        game.step(-1)
    play_randomly(game, 0)
    with pytest.raises(ValueError, match="not legal"):
        game.step(DROP)


def test_unknown_objective_is_refused_by_name() -> None:
    with pytest.raises(UserError, match=r"'watts' is not known; choose one of robust, msa, cycles"):
        MallocGame(chain(), objective="watts")


def test_trivial_buffers_are_played_by_the_game() -> None:
    asked = MallocGame(chain(), trivial_share=0.0)
    silent = MallocGame(chain(), trivial_share=1.0)
    assert not asked.done
    assert silent.done
    assert verify(silent.program, silent.target, silent.mapping()) == []
    assert silent.latency_s <= silent.all_hbm_s


def test_scoped_memory_is_left_alone() -> None:
    program = chain(target=TARGET, reserved={"b": 32})
    game = MallocGame(program, trivial_share=0.0)
    play_by_name(game, {}, default=NO_COPY)
    assert game.mapping().residencies[:, 3].min() >= 32
