"""Branches: what is recorded is what the game earned, the line only gets better, and an actor continues inside one."""

from dataclasses import replace

import numpy as np
import pytest
from actor_cases import NETWORK, SEARCH, Recorder, make_actor, parameters, skips, steps

from mallocmuzero.actors.self_play.actor import SelfPlayActor
from mallocmuzero.actors.self_play.annealing import AnnealingConfig
from mallocmuzero.actors.self_play.branch import BranchConfig
from mallocmuzero.actors.self_play.config import ActorConfig
from mallocmuzero.actors.self_play.episode import EpisodeResult
from mallocmuzero.actors.self_play.programs import ProgramContext
from mallocmuzero.env.errors import UserError
from mallocmuzero.env.game.game import MallocGame, play_line
from mallocmuzero.env.program.program import Program
from mallocmuzero.env.workloads import load
from mallocmuzero.replay.segment import Step
from mallocmuzero.solvers.common.line import LineOfPlay, nearest_move, play_to_end
from mallocmuzero.solvers.common.reward_scale import make_scale

CONFIG = ActorConfig(
    games=3, objective="msa", branch=BranchConfig(share=1.0, moves=5, kick=0.5, counterfactual=False, opponent="first")
)
SEGMENT = 6


def actor(program: Program, seed: int = 0) -> tuple[SelfPlayActor, list[Recorder]]:
    return make_actor([program], seed=seed, config=CONFIG)


def improvements(made: SelfPlayActor, moves: int) -> list[EpisodeResult]:
    return [result for result in made.play(moves).episodes if result.actions]


def test_a_line_begins_anywhere_and_its_preferences_lead_along_it() -> None:
    game = MallocGame(load("resnet50-b32-v4"), objective="msa", place_trivial=False)
    make_scale(game)
    actions, latency_s = list(game.actions), game.latency_s
    line = LineOfPlay(game.clone(), np.array(actions), latency_s)
    for decision in (0, 1, 7, len(actions) - 1):
        copy = game.clone()
        line.begin(copy, decision)
        straight = game.clone()
        straight.play(actions[:decision])
        assert copy.actions == straight.actions
        assert copy.access == straight.access
        assert np.array_equal(copy.legal, straight.legal)
        assert np.array_equal(copy.observe(), straight.observe())
        while not copy.done:
            copy.step(nearest_move(copy, line.preferences))
        assert copy.actions == actions
        assert copy.latency_s == latency_s


@pytest.mark.parametrize(("workload", "seed"), [(None, 0), (None, 9), ("resnet50-b32-v4", 0)])
def test_steps_hold_what_the_game_earned(workload: str | None, seed: int) -> None:
    program = skips(8) if workload is None else load(workload)
    made, writers = actor(program, seed)
    results = {}
    for _ in range(200):
        for result in made.play(3).episodes:
            if result.actions:
                results[result.latency_s] = result
    assert results
    reference = ProgramContext(CONFIG.game(program), program.production)
    episodes = [episode for writer in writers for episode in writer.episodes if episode]
    found = 0
    for result in results.values():
        game = CONFIG.game(program)
        played: list[Step] = []
        ahead = [_by_reference_s(reference, [])]
        for action in result.actions:
            observation, legal = game.observe().copy(), game.legal.copy()
            game.step(action)
            ahead.append(_by_reference_s(reference, game.actions))
            reward = (ahead[-2] - ahead[-1]) / reference.scale.unit_s
            played.append(Step(observation, legal, action, reward, 0.0 if game.done else 1.0, np.zeros(3), 0.0))
        assert game.latency_s == pytest.approx(result.latency_s, rel=1e-12)
        assert sum(step.reward for step in played) * reference.scale.unit_s == pytest.approx(
            reference.line.latency_s - result.latency_s, rel=1e-9
        )
        found += any(
            _lies_in(episode, _valued(stretch, ahead[begin:], result.latency_s, reference.scale.unit_s))
            for episode in episodes
            for begin in range(len(played) - len(episode) + 1)
            for stretch in [played[begin : begin + len(episode)]]
        )
    assert found == len(results)


def _by_reference_s(played: ProgramContext, actions: list[int]) -> float:
    """Seconds by the slow way: a whole game, ended by the first line's preferences and judged as a mapping."""
    game = played.game_after(actions)
    play_to_end(game, played.first)
    return game.latency_s


def _valued(stretch: list[Step], ahead: list[float], latency_s: float, unit_s: float) -> list[Step]:
    """Returns a stretch of a game with its values: the best outcome known from each step on, that of the game or of the
    first line from a step of the stretch."""
    return [
        step._replace(value=max(0.0, ahead[k] - min(latency_s, *ahead[k : len(stretch)])) / unit_s)
        for k, step in enumerate(stretch)
    ]


def _lies_in(episode: list[Step], stretch: list[Step]) -> bool:
    """Returns whether an episode and a stretch of a game agree in all that the actor records."""
    return all(
        np.array_equal(one.observation, other.observation)
        and np.array_equal(one.legal, other.legal)
        and one.action == other.action
        and one.reward == pytest.approx(other.reward, abs=1e-9)
        and one.value == pytest.approx(other.value, abs=1e-8)
        and one.discount == other.discount
        for one, other in zip(stretch, episode, strict=True)
    )


def test_a_branch_ends_when_its_last_searched_move_has_a_whole_segment() -> None:
    made, writers = actor(load("resnet50-b32-v4"))
    made.play(3 * 30)
    for writer in writers:
        for episode in writer.episodes[:-1]:
            whole = episode[-1].discount == 0.0
            assert len(episode) <= 5 + SEGMENT - 1
            assert whole or len(episode) == 5 + SEGMENT - 1
            for step in episode[5:]:  # follows the line
                assert step.policy[step.action] == 1.0


def test_the_line_only_gets_better_and_is_what_it_says() -> None:
    program = load("resnet50-b32-v4")
    made, _ = actor(program)
    best = [result.latency_s for _ in range(40) for result in improvements(made, 30)]
    assert best == sorted(best, reverse=True)
    (latency_s, moves), *_ = made.state()["lines"]
    game = CONFIG.game(program)
    reference_s = make_scale(game).reference_s
    play_line(game, [int(move) for move in moves])
    assert game.latency_s == pytest.approx(latency_s, rel=1e-12)
    assert latency_s <= min([*best, reference_s])
    assert latency_s < reference_s  # forty times thirty moves do find something


def test_an_actor_continues_inside_a_branch() -> None:
    program = load("resnet50-b32-v4")
    through, through_writers = actor(program)
    first, first_writers = actor(program)
    through.play(3 * 23)
    first.play(3 * 13)
    second, second_writers = actor(program, seed=99)
    second.restore(first.state())
    second.play(3 * 10)
    assert second.state()["slots"] == through.state()["slots"]
    for whole, begun, rest in zip(through_writers, first_writers, second_writers, strict=True):
        # Steps are handed over when a branch ends: those of the one under way come from the second actor.
        again = [*steps(begun), *steps(rest)]
        assert [step.action for step in steps(whole)] == [step.action for step in again]
        assert [step.value for step in steps(whole)] == [step.value for step in again]


def test_lines_from_elsewhere_are_taken_if_they_are_better_and_legal() -> None:
    program = load("resnet50-b32-v4")
    strong, _ = actor(program)
    strong.play(900)
    latency_s, moves = strong.state()["lines"][0]
    line = [int(move) for move in moves]
    made, _ = actor(program, seed=1)
    made.offer_lines({program.name: (latency_s, line), "another": (0.0, [0])})
    assert made.state()["lines"][0] == [latency_s, moves]
    with pytest.raises(UserError, match="stops before the end"):
        made.offer_lines({program.name: (0.0, line[:5])})
    with pytest.raises(UserError, match="not legal"):
        made.offer_lines({program.name: (0.0, [*line, 0])})
    assert made.state()["lines"][0] == [latency_s, moves]


def test_parameters_are_needed_and_settings_checked() -> None:
    with pytest.raises(UserError, match="share must be in"):
        BranchConfig(share=1.5)
    with pytest.raises(UserError, match="moves must be at least 1"):
        BranchConfig(moves=0)
    with pytest.raises(UserError, match="kick must be in"):
        BranchConfig(kick=-0.1)
    with pytest.raises(UserError, match="epsilon must be above 0"):
        BranchConfig(epsilon=0.0)
    with pytest.raises(UserError, match="opponent must be first or best"):
        BranchConfig(opponent="production")
    with pytest.raises(UserError, match="tail must not"):
        BranchConfig(tail=-1)
    made = SelfPlayActor([skips()], NETWORK, SEARCH, CONFIG, [Recorder() for _ in range(3)], 0, SEGMENT)
    with pytest.raises(ValueError, match="set_parameters"):
        made.play(3)
    made.set_parameters(parameters(), 0)
    assert made.play(3).moves == 3


def test_annealing_betters_the_line_and_continues_where_it_stood() -> None:
    program = load("resnet50-b32-v4")
    config = replace(CONFIG, annealing=AnnealingConfig(accesses=400 * program.num_accesses, cycle=300))
    through, _ = make_actor([program], config=config)
    first, _ = make_actor([program], config=config)
    plain, _ = actor(program)
    reported = [result for _ in range(4) for result in improvements(through, 3)]
    for _ in range(2):
        first.play(3)
    second, _ = make_actor([program], seed=5, config=config)
    second.restore(first.state())
    for _ in range(2):
        second.play(3)
    plain.play(12)
    annealed_s, moves = through.state()["lines"][0]
    assert annealed_s < plain.state()["lines"][0][0]
    assert second.state()["lines"] == through.state()["lines"]
    assert second.state()["annealing"] == through.state()["annealing"]
    best = reported[-1]
    assert (best.latency_s, best.actions) == (annealed_s, [int(move) for move in moves])
    with pytest.raises(UserError, match="place_trivial"):
        replace(config, place_trivial=True)


def test_the_first_line_follows_xla_where_that_beats_greedy() -> None:
    program = load("resnet50-b32-v4")
    config = ActorConfig(games=1, objective="robust", branch=BranchConfig(share=1.0))
    followed, _ = make_actor([program], games=1, config=config)
    alone, _ = make_actor([program], games=1, config=replace(config, follow=False))
    production_s = config.judge(program).production_s
    assert production_s is not None
    assert followed.state()["lines"][0][0] <= alone.state()["lines"][0][0]
    assert followed.state()["lines"][0][0] == pytest.approx(production_s, rel=0.01)
    with pytest.raises(UserError, match="patience must be"):
        ActorConfig(patience=-1.0)
