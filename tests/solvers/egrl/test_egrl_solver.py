"""EGRL: homes become plans, refusals lower the reward, and every method searches within its budget."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import TARGET, make_program, programs

from mallocmuzero.env.game.moves import COPY, DROP, NO_COPY
from mallocmuzero.env.game.plan import CROSS_PROGRAM_FETCH
from mallocmuzero.env.program.program import OPERAND, all_hbm
from mallocmuzero.env.workloads import load
from mallocmuzero.solvers.common.budget import Budget
from mallocmuzero.solvers.common.task import Task
from mallocmuzero.solvers.egrl.play import Player, ReplayBuffer, RewardConfig
from mallocmuzero.solvers.egrl.solver import METHODS, EgrlConfig, greedy_dp, play_method
from mallocmuzero.solvers.egrl.tensors import BOTH, FAST, HBM, NUM_HOMES, make_tensors

PROGRAM = "tiny"


def small_task(games: int = 1000) -> Task:
    """`w` is an input, `a` is made of it, `out` is returned; fast memory holds 128 bytes."""
    program = make_program(
        [("first", 0.1, ["w"], ["a"]), ("second", 0.1, ["w", "a"], ["out"])],
        {"w": {"size": 64, "input": True}, "a": 64, "out": {"size": 64, "output": True}},
        TARGET,
    )
    return Task(program, None, "msa", Budget(None, games), 0)


def test_homes_become_preferences() -> None:
    task = small_task()
    tensors = make_tensors(task)
    names = [task.game.program.buffer_names[b] for b in np.unique(task.game.program.access_buffer[task.free])]
    assert tensors.count == len(names)
    w, a = names.index("w"), names.index("a")
    program = task.game.program
    for home, (operand, result) in {HBM: (DROP, DROP), FAST: (COPY, NO_COPY), BOTH: (COPY, COPY)}.items():
        homes = np.full(tensors.count, HBM)
        homes[a] = home
        plan = tensors.plan(homes)
        mine = tensors.node == a
        assert mine.sum() == 2
        for access in np.flatnonzero(mine):
            assert plan[access] == (operand if program.access_kind[access] == OPERAND else result)
        assert (plan[~mine] == DROP).all()
    homes[a], homes[w] = HBM, BOTH
    assert (tensors.plan(homes)[tensors.node == w] == CROSS_PROGRAM_FETCH).all()
    assert tensors.edges[w, a]


def test_refused_bytes_count() -> None:
    task = small_task()
    tensors = make_tensors(task)
    everything = np.full(tensors.count, FAST)
    fast = np.zeros(len(tensors.node), np.int8)
    assert tensors.denied(np.full(tensors.count, HBM), fast) == 0.0
    assert tensors.denied(everything, fast) == pytest.approx(1.0)
    assert tensors.denied(everything, np.ones_like(fast)) == 0.0
    first = np.flatnonzero(tensors.node >= 0)[0]
    fast[first] = 1
    assert tensors.denied(everything, fast) == pytest.approx(1.0 - tensors.moved[first] / tensors.moved.sum())


def test_rewards() -> None:
    task = Task(load("resnet50-b32-v4"), None, "msa", Budget(None, 1000), 0)
    soft, plain = Player(task, RewardConfig()), Player(task, RewardConfig(refusal=0.0))
    strict = Player(task, RewardConfig(strict=True))
    judge = task.game.judge
    assert judge.production_s is not None
    nothing, everything = np.full(soft.tensors.count, HBM), np.full(soft.tensors.count, FAST)
    speed_up = judge.production_s / judge.judge(all_hbm(judge.program))
    assert soft.play(nothing) == pytest.approx(5.0 * speed_up**2, rel=1e-3)  # trivial buffers stay in HBM
    assert strict.play(nothing) == plain.play(nothing) == soft.play(nothing)
    # Not everything fits: the refused share is taken off, or is all there is.
    refused = plain.play(everything) - soft.play(everything)
    assert 0.05 < refused < 0.95
    assert strict.play(everything) == pytest.approx(-refused)


@settings(max_examples=30, deadline=None)
@given(programs(), st.integers(0, 2**31))
def test_any_homes_of_any_program_can_be_played(program, seed: int) -> None:
    task = Task(program, None, "msa", Budget(None, 10), seed)
    player = Player(task, RewardConfig())
    homes = task.generator.integers(NUM_HOMES, size=player.tensors.count)
    assert np.isfinite(player.play(homes))
    assert np.isfinite(player.tensors.features).all()
    assert (player.tensors.edges == player.tensors.edges.T).all()
    assert task.evaluations == 1


def test_the_replay_buffer_forgets_the_oldest() -> None:
    replay, chance = ReplayBuffer(4, 2), np.random.default_rng(0)
    for number in range(6):
        replay.add(np.array([number, -number]), float(number))
    assert len(replay) == 4
    homes, reward = replay.sample(200, chance)
    assert set(reward.tolist()) == {2.0, 3.0, 4.0, 5.0}
    np.testing.assert_array_equal(homes[:, 0], reward)
    np.testing.assert_array_equal(homes[:, 1], -reward)


def test_greedy_over_layers_finds_what_one_tensor_at_a_time_can_find() -> None:
    task = small_task(200)
    player = Player(task, RewardConfig())
    start = player.play(np.full(player.tensors.count, HBM))
    greedy_dp(player, EgrlConfig())
    best = max(player.play(np.array(homes)) for homes in np.ndindex(*([NUM_HOMES] * player.tensors.count)))
    reached = 5.0 * (task.game.judge.seconds(task.game.judge.baseline) / task.best_s) ** 2
    assert start < reached
    assert best <= reached + 1e-9


@pytest.mark.parametrize("method", METHODS)
def test_methods_keep_the_budget_and_repeat(method: str) -> None:
    reached = []
    for seed in (1, 1):
        task = Task(load(PROGRAM), None, "msa", Budget(None, 70), seed)
        play_method(task, method)
        assert task.evaluations == 70
        assert np.isfinite(task.best_s)
        assert task.best_plan is not None
        reached.append((task.best_s, task.best_plan.tobytes()))
    assert reached[0] == reached[1]
