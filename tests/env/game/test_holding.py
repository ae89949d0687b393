"""What loops leave to their passes: each pass fetches, and writes back, for itself."""

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from programs import make_mapping, make_program, programs

from mallocmuzero.env.errors import UserError
from mallocmuzero.env.game import kernels
from mallocmuzero.env.game.game import MallocGame
from mallocmuzero.env.game.holding import HOLD_ALL, PerPass, held_over, per_pass_of, releasable
from mallocmuzero.env.game.moves import COPY, DROP, NO_COPY
from mallocmuzero.env.game.outcome import make_scoring
from mallocmuzero.env.game.plan import TO_THE_END, play_until, random_plan
from mallocmuzero.env.physics.simulator import simulate
from mallocmuzero.env.program.mapping import PREFETCH, WRITE_BACK
from mallocmuzero.env.program.program import Program
from mallocmuzero.env.verifier.verify import verify


def layers() -> Program:
    """Instruction 0 makes `y`; each pass of the loop of 1 to 5 reads `w` and `v`, which do not fit together, and `s`,
    which it writes anew."""
    return make_program(
        [
            ("a", 1.0, [], ["y"]),
            ("b", 3.0, ["y", "s"], ["t"]),
            ("m", 3.0, ["t"], ["q"]),
            ("c", 3.0, ["w", "q"], ["u"]),
            ("d", 3.0, ["v", "u"], ["s"]),
            ("e", 3.0, ["y"], ["r"]),
            ("f", 1.0, ["s"], ["out"]),
        ],
        {
            "w": {"size": 96, "input": True},
            "v": {"size": 96, "input": True},
            "s": {"size": 8, "input": True},
            **dict.fromkeys("ytqur", 8),
            "out": {"size": 8, "output": True},
        },
        loops=[(1, 5, 10)],
    )


def pair(program: Program, name: str, loop: int = 0) -> tuple[int, int]:
    return program.buffer_names.index(name), loop


def play(game: MallocGame, moves: dict[str, int]) -> None:
    while not game.done:
        name = game.program.buffer_names[game.program.access_buffer[game.access]]
        move = moves.get(name, DROP)
        game.step(move if game.legal[move] else int(np.flatnonzero(game.legal)[0]))


def stays(game: MallocGame, name: str) -> list[list[int]]:
    rows = game.mapping().residencies
    found: list[list[int]] = rows[rows[:, 0] == game.program.buffer_names.index(name), 1:3].tolist()
    return found


def copies(game: MallocGame, name: str) -> list[list[int]]:
    rows = game.mapping().copies
    found: list[list[int]] = rows[rows[:, 0] == game.program.buffer_names.index(name), 1:4].tolist()
    return found


def test_each_pass_fetches_what_the_loop_does_not_hold() -> None:
    program = layers()
    game = MallocGame(program, objective="msa", trivial_share=0.0, per_pass=[pair(program, "w"), pair(program, "v")])
    play(game, {"w": COPY, "v": COPY, "y": NO_COPY})
    assert copies(game, "w") == [[PREFETCH, 1, 3]]
    assert stays(game, "w") == [[2, 3]]
    assert verify(program, game.target, game.mapping()) == []
    assert game.saved_s == pytest.approx(game.all_hbm_s - game.latency_s)
    held = MallocGame(program, objective="msa", trivial_share=0.0)
    play(held, {"w": COPY, "v": COPY, "y": NO_COPY})
    assert stays(held, "w") == [[0, 5]]
    assert not stays(held, "v"), "held over the loop there is room for one alone"


def test_what_a_pass_hands_on_in_hbm_is_read_and_written_there_at_its_borders() -> None:
    program = layers()
    game = MallocGame(program, objective="msa", trivial_share=0.0, per_pass=[pair(program, "s")])
    play(game, {"s": COPY})
    assert copies(game, "s")[0] == [WRITE_BACK, 4, 5], "it is out before the pass ends"
    s = program.buffer_names.index("s")
    assert game.mapping().access_fast[program.access_buffer == s].tolist()[:2] == [False, True]
    assert verify(program, game.target, game.mapping()) == []


def test_a_value_made_before_a_loop_goes_to_hbm_for_its_passes() -> None:
    program = layers()
    game = MallocGame(program, objective="msa", trivial_share=0.0, per_pass=[pair(program, "y")])
    assert not game.legal[NO_COPY]
    play(game, {"y": COPY})
    assert copies(game, "y")[0] == [WRITE_BACK, 0, 1]
    assert stays(game, "y")[0] == [0, 0]
    assert verify(program, game.target, game.mapping()) == []


def test_a_mapping_tells_what_its_passes_fetch() -> None:
    program = layers()
    read = [("c", "w")]
    within = make_mapping(program, read, [("w", 2, 3, 0)], [{"buffer": "w", "start": 1, "end": 3}])
    assert verify(program, program.target, within) == []
    assert per_pass_of(program, within) == {pair(program, "w")}
    over = make_mapping(program, read, [("w", 0, 5, 0)], [{"buffer": "w", "start": -1, "end": 1}])
    assert verify(program, program.target, over) == []
    assert per_pass_of(program, over) == HOLD_ALL


def test_inner_loops_hold_what_an_outer_one_leaves_to_its_passes() -> None:
    program = make_program(
        [("a", 1.0, [], ["x"]), ("b", 1.0, [], ["y"]), ("c", 1.0, ["w"], ["u"]), ("d", 1.0, ["y"], ["v"])],
        {"w": {"size": 64, "input": True}, "x": 8, "y": 8, "u": 8, "v": 8},
        loops=[(0, 3, 5), (2, 2, 7)],
    )
    assert releasable(program) == {pair(program, "w", 0)}
    holder, _ = held_over(program, frozenset([pair(program, "w", 0)]))
    assert holder[program.access_buffer == program.buffer_names.index("w")].tolist() == [1]
    game = MallocGame(program, objective="msa", trivial_share=0.0, per_pass=[pair(program, "w", 0)])
    play(game, {"w": COPY})
    assert copies(game, "w") == [[PREFETCH, 0, 2]]
    assert verify(program, game.target, game.mapping()) == []


def test_other_pairs_are_refused() -> None:
    program = layers()
    with pytest.raises(UserError, match=r"per_pass: \(\d, 0\) is no pair .* `env\.game\.holding\.releasable` lists"):
        MallocGame(program, objective="msa", per_pass=[(program.buffer_names.index("t"), 0)])


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(programs(max_instructions=14), st.integers(0, 2**16))
def test_any_game_is_legal_and_priced_right(program: Program, seed: int) -> None:
    rng = np.random.default_rng(seed)
    pairs: PerPass = frozenset(one for one in sorted(releasable(program)) if rng.random() < 0.7)
    assume(pairs)
    game = MallocGame(program, objective="msa", trivial_share=0.0, per_pass=pairs)
    while not game.done:
        offset = int(rng.integers(game.target.fast_bytes // game.target.alignment)) * game.target.alignment
        move = COPY if game.legal[COPY] and rng.random() < 0.6 else int(rng.choice(np.flatnonzero(game.legal)))
        game.step(move, offset if rng.random() < 0.3 and game.allows(move, offset) else None)
    assert verify(program, game.target, game.mapping()) == []
    assert game.latency_s == pytest.approx(simulate(program, game.target, game.mapping()).latency_s, rel=1e-9)
    # By a plan, and judged in compiled code.
    plan, moves = random_plan(game.tables, rng), np.zeros(program.num_accesses, np.int8)
    kernels.reset(game.tables, game.state)
    play_until(game.tables, game.state, game.options, plan, moves, TO_THE_END)
    judged_s = kernels.judge(game.tables, make_scoring(game.judge), game.state)
    game.take_over()
    assert judged_s == pytest.approx(game.latency_s, rel=1e-9)
    assert verify(program, game.target, game.mapping()) == []
