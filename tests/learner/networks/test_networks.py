"""The network: shapes, starting values, and configuration."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mallocmuzero.env.errors import UserError
from mallocmuzero.learner.networks.codec import ScalarCodec
from mallocmuzero.learner.networks.modules import normalise_latent
from mallocmuzero.learner.networks.network import Network, NetworkConfig

FLAT = NetworkConfig(observation_size=30, width=32, projection_width=16)
WITH_GRID = NetworkConfig(observation_size=8 * 6 * 2 + 5, grid=(8, 6, 2), grid_channels=(4, 8), width=32)
both = pytest.mark.parametrize("config", [FLAT, WITH_GRID], ids=["flat", "grid"])


@both
def test_inference_shapes_and_zero_start(config: NetworkConfig) -> None:
    network = Network(config)
    params = network.init(jax.random.PRNGKey(0))
    observation = jax.random.normal(jax.random.PRNGKey(1), (4, config.observation_size))
    root = network.initial_inference(params, observation)
    after = network.recurrent_inference(params, root.latent, jnp.array([0, 1, 2, 0]))
    for output in (root, after):
        assert output.latent.shape == (4, config.width)
        assert output.policy_logits.shape == (4, 3)
        np.testing.assert_allclose(output.value, np.zeros(4), atol=1e-6)
        np.testing.assert_allclose(output.reward, np.zeros(4), atol=1e-6)
        np.testing.assert_array_equal(output.policy_logits, np.zeros((4, 3)))
        assert float(output.latent.min()) == 0.0
        assert float(output.latent.max()) == pytest.approx(1.0)
    assert network.project(params, root.latent, online=True).shape == (4, config.projection_width)
    assert network.project(params, root.latent, online=False).shape == (4, config.projection_width)


@both
def test_every_input_and_the_action_reach_the_latent(config: NetworkConfig) -> None:
    network = Network(config)
    params = network.init(jax.random.PRNGKey(0))
    observation = jax.random.normal(jax.random.PRNGKey(1), (8, config.observation_size))
    direction = jax.random.normal(jax.random.PRNGKey(2), (8, config.width))
    gradient = jax.grad(lambda o: jnp.sum(network.represent(params, o) * direction))(observation)
    assert (np.abs(gradient).max(axis=0) > 0).all()
    latent = jnp.repeat(network.represent(params, observation[:1]), 3, axis=0)
    after, _ = network.transition(params, latent, jnp.arange(3))
    assert len(np.unique(np.asarray(after).round(4), axis=0)) == 3


def test_the_grid_is_row_major_height_width_channels() -> None:
    network = Network(NetworkConfig(observation_size=8 * 8, grid=(8, 8, 1), grid_channels=(1,), width=8))
    params = network.init(jax.random.PRNGKey(0))
    kernel = np.zeros((3, 3, 1, 1), np.float32)
    kernel[0, 0] = 1.0  # with stride 2 on an even size this reads pixel (0, 0) of each 2 x 2 square
    params["representation"]["grid"]["conv_0"]["kernel"] = jnp.asarray(kernel)

    def sensitivity(row: int, column: int) -> float:
        image = jnp.zeros((1, 8, 8)).at[0, row, column].set(1.0)
        blank = network.represent(params, jnp.zeros((1, 64)))
        return float(jnp.abs(network.represent(params, image.reshape(1, 64)) - blank).max())

    assert sensitivity(2, 4) > 0
    assert sensitivity(2, 5) == sensitivity(3, 4) == 0


def test_latent_normalisation_leaves_nearly_constant_vectors_alone() -> None:
    noise = 1e-6 * jax.random.normal(jax.random.PRNGKey(0), (1, 16))
    assert float(normalise_latent(1.0 + noise).max()) < 0.01
    gradient = jax.grad(lambda x: normalise_latent(x).sum())(jnp.ones((1, 16)))
    assert np.isfinite(gradient).all()


def test_equal_configurations_are_one_static_argument() -> None:
    again = NetworkConfig(observation_size=30, width=32, projection_width=16)
    assert hash(Network(FLAT)) == hash(Network(again))
    assert Network(FLAT) == Network(again)
    assert Network(FLAT) != Network(WITH_GRID)


@both
def test_configuration_survives_json(config: NetworkConfig) -> None:
    again = NetworkConfig.from_json(config.to_json())
    assert again == config
    assert again.sha256 == config.sha256


def test_hash_tells_configurations_apart() -> None:
    assert FLAT.sha256 != WITH_GRID.sha256
    other = NetworkConfig(observation_size=30, width=32, projection_width=16, value=ScalarCodec(limit=21.0))
    assert FLAT.sha256 != other.sha256


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"observation_size": 0}, "observation_size"),
        ({"observation_size": 5, "width": 0}, "width"),
        ({"observation_size": 5, "dynamics_blocks": -1}, "dynamics_blocks"),
        ({"observation_size": 5, "grid": (2, 2, 2)}, "grid"),
        ({"observation_size": 5, "grid": (2, 2)}, "grid"),
        ({"observation_size": 5, "colour": 1}, "colour"),
        ({"width": 5}, "observation_size"),
    ],
)
def test_a_bad_configuration_is_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        NetworkConfig.from_json(values)
