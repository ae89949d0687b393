import dataclasses

import numpy as np
import pytest
from actor_cases import skips

from mallocmuzero.actors.self_play.best_mappings import BestMappings
from mallocmuzero.actors.self_play.config import RESIDENCY, ActorConfig
from mallocmuzero.actors.self_play.episode import EpisodeResult
from mallocmuzero.actors.self_play.programs import ProgramContext
from mallocmuzero.env.errors import UserError
from mallocmuzero.env.game.records import NEVER
from mallocmuzero.env.program.mapping import PREFETCH, WRITE_BACK
from mallocmuzero.env.program.program import Program
from mallocmuzero.env.verifier.verify import verify
from mallocmuzero.env.workloads import load
from mallocmuzero.solvers.common.follow import hints_of_mapping, without_times
from mallocmuzero.solvers.order.solver import ordered_mapping

ORDERS = ActorConfig(orders=40)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"orders": -1}, "orders must not be negative"),
        ({"orders": 5, "follow": False}, "set follow to true, or orders to 0"),
        ({"games": 0}, "games must be at least 1"),
        ({"window_slack": 0.5}, "window_slack must be at least 1"),
        ({"place_trivial": True}, "place_trivial goes with whole games alone"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        ActorConfig(**settings)  # type: ignore[arg-type]


def test_without_orders_games_follow_production_or_nothing() -> None:
    program = load("tiny")
    assert ActorConfig().followed(program) is program.production
    assert ActorConfig(follow=False).followed(program) is None
    assert ActorConfig().ordered(program) is None


def first_line_s(config: ActorConfig, program: Program) -> float:
    return ProgramContext(config.game(program), config.followed(program)).best[0]


@pytest.mark.parametrize("name", ["tiny", "resnet50-b128"])
def test_with_orders_games_follow_the_better_of_two_mappings(name: str) -> None:
    program = load(name)
    ordered, followed = ORDERS.ordered(program), ORDERS.followed(program)
    assert ordered is not None
    assert followed in (program.production, ordered)
    assert not verify(program, program.target, ordered)
    judge = ORDERS.judge(program)
    assert program.production is not None
    assert judge.judge(ordered) < judge.judge(program.production)
    assert first_line_s(ORDERS, program) <= first_line_s(ActorConfig(), program)
    assert followed is not None
    hints, mine = ORDERS.game(program).tables.hints(), hints_of_mapping(program, followed)
    assert any(np.array_equal(hints, known) for known in (mine, without_times(mine)))


@pytest.mark.parametrize("name", ["tiny", "gshard-b8-s512-v6e", "graph-network-train", "alexnet-b256-v4"])
def test_the_first_line_is_hardly_behind_the_mapping_that_it_follows(name: str) -> None:
    program = load(name)
    production_s = ActorConfig().judge(program).production_s
    assert production_s is not None
    assert first_line_s(ActorConfig(), program) <= 1.02 * production_s  # it was up to 21 % behind


def test_hints_say_when_a_mappings_copies_run() -> None:
    program = load("tiny")
    assert program.production is not None
    hints = hints_of_mapping(program, program.production)
    for buffer, direction, start, end in program.production.copies[:, :4].tolist():
        mine = program.access_buffer == buffer
        if direction == PREFETCH and (mine & (program.access_instruction >= end)).any():
            first = np.flatnonzero(mine & (program.access_instruction >= end))[0]
            assert hints[first, 1] <= start
        if direction == WRITE_BACK:
            assert end in hints[mine, 2]
    assert (hints[:, 0] >= 0).tolist() == program.production.access_fast.tolist()
    assert (without_times(hints)[:, 1:] == NEVER).all()


def test_on_resnet50_another_order_is_the_better_one_to_follow() -> None:
    program = load("resnet50-b128")
    assert ORDERS.followed(program) is ORDERS.ordered(program)
    assert first_line_s(ORDERS, program) < 0.99 * first_line_s(ActorConfig(), program)


def test_every_process_finds_the_same_orders() -> None:
    program = load("tiny")
    found = ORDERS.ordered(program)
    ordered_mapping.cache_clear()  # as in another process
    again = ORDERS.ordered(program)
    assert found is not None
    assert again is not None
    assert again is not found
    np.testing.assert_array_equal(again.residencies, found.residencies)
    np.testing.assert_array_equal(again.copies, found.copies)


def test_a_program_without_production_follows_the_orders() -> None:
    program = dataclasses.replace(load("tiny"), production=None)
    assert ORDERS.followed(program) is ORDERS.ordered(program)


def test_a_run_has_the_ordered_mapping_until_a_game_is_better(tmp_path) -> None:  # type: ignore[no-untyped-def]
    program = load("tiny")
    best = BestMappings([program], ORDERS)
    ordered = ORDERS.ordered(program)
    assert best["tiny"].mapping is ordered
    assert best["tiny"].latency_s < (best["tiny"].production_s or 0.0)
    assert best.lines({}) == {}  # no game is behind it
    game = ORDERS.game(program)
    while not game.done:
        game.step(int(np.flatnonzero(game.legal)[-1]))
    worse = EpisodeResult("tiny", game.latency_s, 0.0, list(game.actions), game.decisions, 0, 0, 1)
    assert not best.offer(worse)
    assert best["tiny"].mapping is ordered
    best.save(tmp_path)
    again = BestMappings([program], ActorConfig())
    again.load(tmp_path)
    assert again["tiny"].latency_s == best["tiny"].latency_s


def test_where_production_is_as_good_a_run_begins_with_nothing() -> None:
    assert "skips" not in BestMappings([skips()], ActorConfig())


def test_rounds_follow_production_under_robust_alone_unless_told() -> None:
    program = load("tiny")
    config = ActorConfig(decisions=RESIDENCY, follow=None)
    assert dataclasses.replace(config, objective="robust").followed(program) is program.production
    assert dataclasses.replace(config, objective="msa").followed(program) is None
    assert dataclasses.replace(config, objective="msa", follow=True).followed(program) is program.production
    assert dataclasses.replace(config, objective="robust", follow=False).followed(program) is None
    assert dataclasses.replace(config, objective="msa", orders=3).followed(program) is not None
