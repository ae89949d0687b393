"""Value targets against sums written out by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from learner_cases import make_batch

from mallocmuzero.learner.batch import importance_weights, training_batch
from mallocmuzero.learner.config import LearnerConfig
from mallocmuzero.learner.networks.network import Network, NetworkConfig
from mallocmuzero.learner.targets import bootstrap_values, make_targets, n_step_returns

GAMMA = 0.9


def test_n_step_returns_are_the_sums() -> None:
    generator = np.random.default_rng(0)
    steps, td_steps = 9, 4
    reward = generator.normal(size=(2, steps)).astype(np.float32)
    bootstrap = generator.normal(size=(2, steps - td_steps)).astype(np.float32)
    found = n_step_returns(jnp.asarray(reward), jnp.ones((2, steps)), jnp.asarray(bootstrap), td_steps, GAMMA)
    for row in range(2):
        for k in range(steps - td_steps):
            rewards = sum(GAMMA**i * reward[row, k + i] for i in range(td_steps))
            assert found[row, k] == pytest.approx(rewards + GAMMA**td_steps * bootstrap[row, k], rel=1e-5)


def test_nothing_behind_the_last_step_counts() -> None:
    reward = jnp.array([[1.0, 2.0, 4.0, 100.0, 100.0]])
    discount = jnp.array([[1.0, 1.0, 0.0, 0.0, 0.0]])  # step 2 is the last
    found = n_step_returns(reward, discount, jnp.full((1, 3), 1000.0), 2, GAMMA)
    np.testing.assert_allclose(found[0, 1:], [2.0 + GAMMA * 4.0, 4.0], rtol=1e-6)
    assert float(found[0, 0]) == pytest.approx(1.0 + GAMMA * 2.0 + GAMMA**2 * 1000.0)  # ends two steps on, not before


def test_targets_bootstrap_from_the_target_network() -> None:
    network = Network(NetworkConfig(observation_size=6, width=16, projection_width=8))
    config = LearnerConfig(batch_size=3, unroll_steps=2, td_steps=3, discount=GAMMA)
    params = network.init(jax.random.PRNGKey(0))
    params["prediction"]["value"]["dense"]["kernel"] = jax.random.normal(jax.random.PRNGKey(1), (16, 101))
    batch = training_batch(make_batch(config, observation_size=6, episode_left=[9, 9, 2]), 0.0)
    targets = make_targets(network, params, batch, config)
    values = np.asarray(bootstrap_values(network, params, jnp.asarray(batch.observation)))
    assert np.abs(values).max() > 0.01
    for k in range(3):
        rewards = sum(GAMMA**i * batch.reward[0, k + i] for i in range(3))
        assert targets.value[0, k] == pytest.approx(rewards + GAMMA**3 * values[0, k + 3], rel=1e-4)
    # Row 2 ends after two steps: no bootstrap, and zeros behind the end.
    np.testing.assert_array_equal(targets.valid[2], [True, True, False])
    assert targets.value[2, 0] == pytest.approx(batch.reward[2, 0] + GAMMA * batch.reward[2, 1], rel=1e-5)
    assert targets.value[2, 1] == pytest.approx(batch.reward[2, 1], rel=1e-5)
    assert targets.value[2, 2] == 0.0
    np.testing.assert_array_equal(targets.reward, batch.reward[:, :2])
    np.testing.assert_array_equal(targets.policy, batch.policy[:, :3])


def test_max_takes_the_search_value_where_it_is_larger() -> None:
    network = Network(NetworkConfig(observation_size=6, width=16, projection_width=8))
    params = network.init(jax.random.PRNGKey(0))
    plain = LearnerConfig(batch_size=3, unroll_steps=2, td_steps=3)
    batch = training_batch(make_batch(plain, observation_size=6, episode_left=[9, 9, 2]), 0.0)
    batch.value[0, 1] = 50.0
    batch.value[1, :3] = -50.0
    batch.value[2, 2] = 50.0  # behind the end: ignored
    td = make_targets(network, params, batch, plain)
    largest = make_targets(network, params, batch, LearnerConfig(unroll_steps=2, td_steps=3, value_target="max"))
    expected = np.array(td.value)
    expected[0] = np.maximum(expected[0], batch.value[0, :3])
    expected[2, :2] = np.maximum(expected[2, :2], batch.value[2, :2])
    np.testing.assert_allclose(largest.value, expected)
    assert largest.value[0, 1] == 50.0
    assert largest.value[2, 2] == 0.0


def test_stored_values_ask_no_network() -> None:
    network = Network(NetworkConfig(observation_size=6, width=16, projection_width=8))
    stored = LearnerConfig(batch_size=3, unroll_steps=2, td_steps=3, value_target="stored")
    batch = training_batch(make_batch(stored, observation_size=6, episode_left=[9, 9, 2]), 0.0)
    batch.value[2, 2] = 50.0  # behind the end: ignored
    targets = make_targets(network, {}, batch, stored)
    np.testing.assert_array_equal(targets.value[:2], batch.value[:2, :3])
    np.testing.assert_array_equal(targets.value[2], [*batch.value[2, :2], 0.0])


def test_importance_weights() -> None:
    probability = np.array([0.5, 0.25, 0.25 / 2])
    np.testing.assert_allclose(importance_weights(probability, 4, 1.0), [0.25, 0.5, 1.0])
    np.testing.assert_allclose(importance_weights(probability, 4, 0.5), np.sqrt([0.25, 0.5, 1.0]))
    np.testing.assert_array_equal(importance_weights(probability, 4, 0.0), np.ones(3))
    with pytest.raises(ValueError, match="must be positive"):
        importance_weights(np.array([0.5, 0.0]), 2, 1.0)
