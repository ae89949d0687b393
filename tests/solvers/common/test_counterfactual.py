"""Counterfactuals: what they say is what the game comes to, and branches learn from it."""

from dataclasses import replace

import numpy as np
import pytest
from actor_cases import NETWORK, SEARCH, Recorder, make_actor, parameters

from mallocmuzero.actors.self_play.actor import SelfPlayActor
from mallocmuzero.actors.self_play.branch import BranchConfig
from mallocmuzero.actors.self_play.config import ActorConfig
from mallocmuzero.actors.self_play.programs import ProgramContext
from mallocmuzero.env.game.game import MallocGame
from mallocmuzero.env.workloads import load
from mallocmuzero.solvers.common.counterfactual import policy_of_outcomes
from mallocmuzero.solvers.common.line import nearest_move, play_to_end

CONFIG = ActorConfig(games=3, branch=BranchConfig(share=1.0, moves=5, kick=0.5))


def _played(name: str = "resnet50-b32-v4") -> ProgramContext:
    program = load(name)
    return ProgramContext(CONFIG.game(program), program.production)


def _replayed_s(played: ProgramContext, before: list[int], move: int) -> float:
    """Seconds by the slow way: a game from its beginning, judged as a mapping."""
    game: MallocGame = played.game_after([*before, move])
    play_to_end(game, played.line.preferences)
    return game.latency_s


def test_outcomes_are_those_of_whole_games() -> None:
    played = _played()
    game = played.new_game()
    for decision, action in enumerate(played.line.actions.tolist()):
        if decision % 9 == 0:
            before, legal = game.observe().copy(), game.legal.copy()
            seconds = played.move_latencies_s(game, played.line.preferences)
            assert np.array_equal(np.isfinite(seconds), legal)
            for move in np.flatnonzero(legal).tolist():
                expected = _replayed_s(played, list(game.actions), move)
                assert seconds[move] == pytest.approx(expected, rel=1e-12)
            assert seconds[action] == pytest.approx(played.best[0], rel=1e-12)
            assert np.array_equal(game.observe(), before)
            assert np.array_equal(game.legal, legal)
        game.step(action)
    assert game.latency_s == pytest.approx(played.best[0], rel=1e-12)


def test_policy_of_outcomes() -> None:
    policy = policy_of_outcomes(np.array([3.0, np.inf, 3.0]), 1.0, 0.02)
    assert policy.tolist() == [0.5, 0.0, 0.5]
    policy = policy_of_outcomes(np.array([3.0, 3.02, np.inf]), 1.0, 0.02)
    assert policy.dtype == np.float32
    assert np.log(policy[0] / policy[1]) == pytest.approx(2.5, rel=1e-6)
    clear, clearer = (policy_of_outcomes(np.array([3.0, 3.0 + gap, np.inf]), 1.0, 0.02) for gap in (1.0, 100.0))
    assert np.log(clear[0] / clear[1]) < np.log(clearer[0] / clearer[1]) < 5.0
    halved = policy_of_outcomes(np.array([3.0, 3.02, np.inf]), 2.0, 0.01)
    assert np.log(halved[0] / halved[1]) == pytest.approx(2.5, rel=1e-6)


def _actor() -> tuple[SelfPlayActor, list[Recorder]]:
    return make_actor([load("resnet50-b32-v4")], seed=3, config=CONFIG)


def test_branches_learn_from_outcomes_and_make_the_best_the_line() -> None:
    actor, writers = _actor()
    # Seconds of the line before each slice: branches begin from it.
    lines = [_played().best[0]]
    for _ in range(40):
        for result in actor.play(3).episodes:
            if result.actions:
                lines.append(result.latency_s)
    assert min(lines) < lines[0]
    steps = [step for writer in writers for episode in writer.episodes for step in episode]
    assert len(steps) > 50
    for step in steps:
        assert step.policy.sum() == pytest.approx(1.0)
        assert not step.policy[~step.legal].any()
        assert (step.policy[step.legal] > 0.0).all()
    assert any(np.count_nonzero(step.policy == step.policy.max()) > 1 for step in steps)  # moves that change nothing


def test_first_step_of_a_branch_holds_the_outcomes_of_its_moves() -> None:
    actor, writers = _actor()
    played = _played()
    before: dict[bytes, list[int]] = {}
    game = played.new_game()
    for action in played.line.actions.tolist():
        before[game.observe().tobytes()] = list(game.actions)
        game.step(action)
    actor.play(3 * 5)
    checked = 0
    for writer in writers:
        for episode in writer.episodes[:1]:
            actions = before[episode[0].observation.tobytes()]
            game = played.game_after(actions)
            seconds = np.full(3, np.inf)
            for move in np.flatnonzero(episode[0].legal).tolist():
                seconds[move] = _replayed_s(played, actions, move)
            expected = policy_of_outcomes(seconds, played.scale.unit_s, CONFIG.branch.epsilon)
            assert np.allclose(episode[0].policy, expected, atol=1e-6)
            # Against the best line, which this one still is.
            earned_s = played.best[0] - seconds[episode[0].action]
            assert episode[0].reward == pytest.approx(earned_s / played.scale.unit_s, abs=1e-9)
            assert episode[0].value >= (played.best[0] - seconds.min()) / played.scale.unit_s - 1e-9 >= -1e-9
            assert nearest_move(game, played.line.preferences) in np.flatnonzero(episode[0].legal)
            checked += 1
    assert checked


def test_it_goes_on_inside_a_branch() -> None:
    straight, _ = _actor()
    straight.play(3 * 7)
    state = straight.state()
    resumed = SelfPlayActor(
        [load("resnet50-b32-v4")], NETWORK, SEARCH, CONFIG, [Recorder() for _ in range(3)], 3, segment_length=6
    )
    resumed.set_parameters(parameters(0), 7)
    resumed.restore(state)
    assert resumed.state() == state
    for _ in range(20):
        one, other = straight.play(3).episodes, resumed.play(3).episodes
        assert [result.actions for result in one] == [result.actions for result in other]
    assert straight.state() == resumed.state()


def test_noise_makes_other_branches_that_still_hold_what_they_come_to() -> None:
    config = replace(CONFIG, branch=replace(CONFIG.branch, noise=0.5))
    actor, writers = make_actor([load("resnet50-b32-v4")], seed=3, config=config)
    state = actor.state()
    line = _played().line.preferences.tolist()
    differing = [slot["preferences"] != "".join(map(str, line)) for slot in state["slots"]]
    actor.play(3 * 40)
    values = [episode[0].value for writer in writers for episode in writer.episodes if episode]
    assert any(differing) or min(values) < max(values) - 0.5
    assert max(values) > min(values)


def test_off_it_is_the_search_that_branches_learn_from() -> None:
    config = replace(CONFIG, branch=replace(CONFIG.branch, counterfactual=False))
    actor, writers = make_actor([load("resnet50-b32-v4")], seed=3, config=config)
    actor.play(3 * 20)
    tails = [step for writer in writers for episode in writer.episodes for step in episode[5:]]
    assert tails
    assert all(step.policy[step.action] == 1.0 for step in tails)
