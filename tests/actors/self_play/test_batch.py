import numpy as np
import pytest

from mallocmuzero.actors.self_play.batch import Crew, new_turn, play_turn
from mallocmuzero.actors.self_play.config import ActorConfig
from mallocmuzero.actors.self_play.programs import ProgramPool
from mallocmuzero.env.game.moves import NUM_MOVES
from mallocmuzero.env.game.observation import OBSERVATION_SIZE
from mallocmuzero.env.workloads import load
from mallocmuzero.solvers.common.line import nearest_move

GAMES = 12


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_play_what_games_play_one_by_one(threads: int) -> None:
    config = ActorConfig(games=GAMES)
    context = ProgramPool([config.game(load("resnet50-b32-v4"))], config.followed)[0]
    generator = np.random.default_rng(0)
    games, alone = ([context.new_game() for _ in range(GAMES)] for _ in range(2))
    plan = context.line.preferences
    opponent = context.first
    turns = [new_turn(game, plan, opponent) for game in games]
    crew = Crew(GAMES, threads)
    assert crew.threads == threads
    observations = np.zeros((GAMES, OBSERVATION_SIZE), np.float32)
    legal = np.zeros((GAMES, NUM_MOVES), np.bool_)
    for _ in range(8):
        crew.observe(turns, observations, legal)
        for game, turn, other, seen, may in zip(games, turns, alone, observations, legal, strict=True):
            assert np.array_equal(seen, other.observe())
            assert np.array_equal(may, other.legal)
            turn.now["move"] = generator.choice(np.flatnonzero(may))
            turn.now["counterfactual"] = turn.now["before"] = turn.now["after"] = 1
            assert not game.done
        crew.play(turns)
        for game, turn, other in zip(games, turns, alone, strict=True):
            assert turn.now["before_s"] == context.rollout_latency_s(other, opponent)
            assert np.array_equal(turn.rollout.seconds, context.move_latencies_s(other, plan))
            assert turn.now["nearest"] == nearest_move(other, plan)
            other.step_unpaid(int(turn.now["move"]))
            game.adopt(int(turn.now["move"]), int(turn.now["choices"]))
            assert game.done == other.done
            assert turn.now["after_s"] == context.rollout_latency_s(other, opponent)
            assert np.array_equal(game.block, other.block)


def test_a_move_that_the_opponent_would_make_changes_nothing() -> None:
    config = ActorConfig(games=1)
    context = ProgramPool([config.game(load("resnet50-b32-v4"))], config.followed)[0]
    generator = np.random.default_rng(1)
    for opponent in (context.first, generator.integers(0, 3, len(context.first)).astype(np.int8)):
        game, other = context.new_game(), context.new_game()
        turn = new_turn(game, opponent, opponent)
        same = 0
        turn.now["after"] = turn.now["known"] = 1
        before_s = context.rollout_latency_s(game, opponent)
        while not game.done:
            turn.now["before_s"] = before_s
            turn.now["move"] = move = generator.choice(np.flatnonzero(game.legal))
            same += int(move == nearest_move(other, opponent))
            play_turn(turn)
            other.step_unpaid(int(move))
            game.adopt(int(move), int(turn.now["choices"]))
            before_s = context.rollout_latency_s(other, opponent)
            assert turn.now["after_s"] == before_s
            assert np.array_equal(game.block, other.block)
        assert 0 < same < len(game.actions)


def test_a_machine_may_say_how_many_threads_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert Crew(64).threads == 1
    assert Crew(64, 5).threads == 5
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert Crew(64).threads == 7
    assert Crew(9).threads == 2
