"""The game keeps the conventions of Gymnasium and dm_env."""

import numpy as np
import pytest
from absl.testing import absltest
from dm_env import StepType, test_utils
from gymnasium.utils.env_checker import check_env
from programs import make_program

from mallocmuzero.env.game.adapters import DmEnvGame, GymnasiumGame
from mallocmuzero.env.program.program import Program


def two_layers() -> Program:
    return make_program(
        [("a", 0.1, ["x", "w"], ["y"]), ("b", 0.1, ["y", "v"], ["z"]), ("c", 0.1, ["z", "y"], ["out"])],
        {
            "x": {"size": 40, "input": True},
            "w": {"size": 40, "input": True},
            "v": {"size": 40, "input": True},
            "y": 40,
            "z": 40,
            "out": {"size": 8, "output": True},
        },
    )


@pytest.mark.filterwarnings("ignore:.*Box observation space")  # the observation is unbounded
def test_gymnasium_checker_passes() -> None:
    check_env(GymnasiumGame(two_layers()), skip_render_check=True)


def test_gymnasium_rewards_sum_to_the_saving() -> None:
    env = GymnasiumGame(two_layers())
    _, info = env.reset(seed=3)
    total, done = 0.0, False
    env.action_space.seed(3)
    while not done:
        _, reward, done, _, info = env.step(env.action_space.sample(mask=info["action_mask"]))
        assert not info["illegal"]
        total += float(reward)
    assert total == pytest.approx(1 - info["latency_s"] / env.game.all_hbm_s)


class TestDmEnv(test_utils.EnvironmentTestMixin, absltest.TestCase):
    """dm_env's own contract tests."""

    def make_object_under_test(self) -> DmEnvGame:
        return DmEnvGame(two_layers())

    def make_action(self) -> int:
        legal = self.environment.game.legal
        return int(np.flatnonzero(legal)[0]) if legal.any() else 0


def test_dm_env_begins_anew_after_the_end() -> None:
    env = DmEnvGame(two_layers())
    timestep = env.reset()
    while not timestep.last():
        timestep = env.step(int(np.flatnonzero(timestep.observation["legal"])[0]))
    assert env.step(0).step_type == StepType.FIRST
