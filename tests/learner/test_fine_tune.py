"""Fine-tuning lowers its loss, leaves the first parameters alone, and repeats exactly."""

import jax
import numpy as np
from guided_cases import NETWORK, fresh_params

from mallocmuzero.learner.fine_tune import FineTuner
from mallocmuzero.learner.networks.network import Params


def same(one: Params, other: Params) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True))


def test_the_loss_falls_and_the_first_parameters_stay() -> None:
    tuner = FineTuner(NETWORK, fresh_params(), learning_rate=3e-3)
    before = jax.tree.map(np.array, fresh_params())
    generator = np.random.default_rng(0)
    observation = generator.normal(size=(40, NETWORK.config.observation_size)).astype(np.float32)
    legal = np.ones((40, 3), np.bool_)
    policy = np.where(observation[:, :1] > 0, [[0.9, 0.1, 0.0]], [[0.0, 0.1, 0.9]]).astype(np.float32)
    first = tuner.learn(observation, legal, policy, steps=1, generator=generator)
    last = tuner.learn(observation, legal, policy, steps=60, generator=generator)
    assert last < first
    assert tuner.learn(observation, legal, policy, steps=20, generator=generator) < 0.7 * first
    assert same(before, fresh_params())


def test_compiling_changes_nothing_that_is_learned() -> None:
    generator = np.random.default_rng(1)
    rows = (
        generator.normal(size=(70, NETWORK.config.observation_size)).astype(np.float32),
        np.ones((70, 3), np.bool_),
        np.tile(np.array([[0.2, 0.3, 0.5]], np.float32), (70, 1)),
    )
    plain, compiled = FineTuner(NETWORK, fresh_params()), FineTuner(NETWORK, fresh_params())
    compiled.compile()
    assert compiled.params is fresh_params()
    losses = [tuner.learn(*rows, steps=3, generator=np.random.default_rng(2)) for tuner in (plain, compiled)]
    assert losses[0] == losses[1]
    assert same(plain.params, compiled.params)
