"""Self-play: what reaches the replay is what was played, and an actor continues where it stood."""

import numpy as np
import pytest
from actor_cases import NETWORK, SEARCH, Recorder, make_actor, skips, steps
from programs import make_program

from mallocmuzero.actors.self_play.actor import SelfPlayActor
from mallocmuzero.actors.self_play.config import ActorConfig
from mallocmuzero.actors.self_play.loop import PlayReport
from mallocmuzero.actors.self_play.programs import ProgramContext
from mallocmuzero.env.errors import UserError
from mallocmuzero.env.game.game import MallocGame
from mallocmuzero.env.physics.cost import floor_latency
from mallocmuzero.replay.interface import ReplayTimeout
from mallocmuzero.solvers.common.reward_scale import make_scale


def play_persistently(actor: SelfPlayActor, moves: int) -> list[PlayReport]:
    reports = []
    for _ in range(1000):
        try:
            reports.append(actor.play(moves))
        except ReplayTimeout:
            continue
        break
    return reports


def test_episodes_hold_what_was_played_and_rewards_are_what_it_saved() -> None:
    program = skips()
    actor, writers = make_actor([program])
    report = actor.play(3 * 40)
    assert report.moves == 120 == actor.moves
    assert report.version == 7
    scale = make_scale(MallocGame(program))
    finished = [episode for writer in writers for episode in writer.episodes if episode and episode[-1].discount == 0.0]
    assert len(finished) == len(report.episodes) > 0
    results = {tuple(result.actions): result for result in report.episodes}
    for episode in finished:
        result = results[tuple(step.action for step in episode)]
        game = MallocGame(program)
        for step in episode:
            assert np.array_equal(step.legal, game.legal)
            assert np.array_equal(step.observation, game.observe())
            assert step.legal[step.action]
            assert step.policy.sum() == pytest.approx(1.0, abs=1e-5)
            assert not step.policy[~step.legal].any()
            game.step(step.action)
        assert game.done
        assert game.latency_s == result.latency_s
        earned_s = sum(step.reward for step in episode) * scale.unit_s
        # The first line of this program is the greedy player's.
        assert earned_s == pytest.approx(scale.reference_s - game.latency_s, rel=1e-9, abs=1e-15)
        assert result.score == scale.score(game.latency_s) == pytest.approx(earned_s / scale.headroom_s, abs=1e-6)
        assert [step.discount for step in episode] == [1.0] * (len(episode) - 1) + [0.0]


def test_the_scale_puts_greedy_at_zero_and_the_floor_at_one_or_below() -> None:
    program = skips()
    game = MallocGame(program)
    scale = make_scale(game)
    assert scale.score(scale.reference_s) == 0.0
    assert scale.score(floor_latency(program, program.target)) <= 1.0 + 1e-9


@pytest.mark.parametrize("place_trivial", [False, True])
def test_the_first_line_earns_nothing_anywhere(place_trivial: bool) -> None:
    game = MallocGame(skips(30), trivial_share=0.01, place_trivial=place_trivial)
    played = ProgramContext(game)
    following = played.new_game()
    first_s = played.best[0]
    for action in played.line.actions.tolist():
        assert played.rollout_latency_s(following, played.first) == pytest.approx(first_s, rel=1e-12)
        following.step(action)
    assert played.rollout_latency_s(following, played.first) == pytest.approx(first_s, rel=1e-12)


def test_the_unit_is_shared_out_among_the_decisions_of_long_games() -> None:
    short, long = make_scale(MallocGame(skips(5))), make_scale(MallocGame(skips(60), trivial_share=0.0))
    assert short.unit_s == short.headroom_s
    game = MallocGame(skips(60), trivial_share=0.0)
    make_scale(game)
    assert game.decisions > 64
    assert long.unit_s == pytest.approx(long.headroom_s * 64 / game.decisions)


def test_several_programs_take_turns() -> None:
    actor, _ = make_actor([skips(3, "short"), skips(4, "long")], games=2)
    played = [result.program for result in actor.play(2 * 60).episodes]
    assert {"short", "long"} == set(played)


def test_a_held_replay_loses_nothing() -> None:
    program = skips(3)
    free, free_writers = make_actor([program])
    held, held_writers = make_actor([program], refuse=5)
    free.play(60)
    while held.moves < 60:
        play_persistently(held, 3)
    play_persistently(held, 0)
    for left, right in zip(free_writers, held_writers, strict=True):
        assert [len(episode) for episode in left.episodes] == [len(episode) for episode in right.episodes]
        for one, other in zip(steps(left), steps(right), strict=True):
            assert one.action == other.action
            assert one.reward == other.reward


def test_an_actor_continues_where_it_stood() -> None:
    program = skips()
    through, through_writers = make_actor([program])
    through.play(45)
    first, _ = make_actor([program])
    first.play(30)
    state = first.state()
    second, second_writers = make_actor([program], seed=99)
    second.restore(state)
    second.play(15)
    for whole, rest in zip(through_writers, second_writers, strict=True):
        tail = steps(whole)[10:]
        again = steps(rest)
        assert len(tail) == len(again) == 5
        for one, other in zip(tail, again, strict=True):
            assert one.action == other.action
            assert one.value == other.value
            assert np.array_equal(one.observation, other.observation)
    with pytest.raises(UserError, match="has 3 games, the configuration 2"):
        make_actor([program], games=2)[0].restore(state)
    state["slots"][0]["actions"] = [2, 2, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0]
    with pytest.raises(UserError, match="not legal on program 'skips'"):
        second.restore(state)


def test_a_program_without_decisions_is_refused_by_name() -> None:
    program = make_program([("a", 1.0, [], ["x"])], {"x": {"size": 8, "fast_allowed": False}}, name="nothing")
    with pytest.raises(UserError, match="'nothing' leaves nothing to decide"):
        make_actor([program])


def test_configuration_is_checked() -> None:
    with pytest.raises(UserError, match="games must be at least 1"):
        ActorConfig(games=0)
    with pytest.raises(UserError, match="trivial_share"):
        ActorConfig(trivial_share=1.5)
    with pytest.raises(UserError, match="need as many writers"):
        SelfPlayActor([skips()], NETWORK, SEARCH, ActorConfig(games=2), [Recorder()], 0)
