"""The network that chooses among candidates: shapes, symmetry, and its scores in NumPy."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mallocmuzero.env.errors import UserError
from mallocmuzero.learner.networks.network import Network, NetworkConfig, Params
from mallocmuzero.learner.networks.numpy_scorer import NumpyScorer

K, ROW, CHOICES = 5, 9, 4
F = 1 + ROW + CHOICES
NETWORK = Network(
    NetworkConfig(
        observation_size=K * F + 2, num_actions=K + 1, candidates=K, candidate_size=F, width=12, candidate_width=7
    )
)
# Compiled as a whole, as everybody but tests calls them: operation by operation takes ten times as long.
FIRST, NEXT, REPRESENT, TRANSITION, OUTCOMES = map(
    jax.jit,
    (NETWORK.initial_inference, NETWORK.recurrent_inference, NETWORK.represent, NETWORK.transition, NETWORK.outcomes),
)


@functools.cache
def parameters() -> Params:
    """Parameters without zeros, so that every output depends on its inputs."""
    params = NETWORK.init(jax.random.key(0))
    leaves, tree = jax.tree.flatten(params)
    keys = jax.random.split(jax.random.key(1), len(leaves))
    fresh = [leaf + 0.1 * jax.random.normal(key, leaf.shape) for leaf, key in zip(leaves, keys, strict=True)]
    return jax.tree.unflatten(tree, fresh)


def observations(batch: int = 3) -> np.ndarray:
    draw = np.random.default_rng(0)
    rows = draw.normal(size=(batch, K, F)).astype(np.float32)
    rows[..., 0] = 1.0
    return np.concatenate([rows.reshape(batch, -1), draw.normal(size=(batch, 2)).astype(np.float32)], axis=1)


def test_shapes_and_a_zero_start() -> None:
    params = NETWORK.init(jax.random.key(0))
    output = FIRST(params, jnp.asarray(observations()))
    assert output.latent.shape == (3, NETWORK.config.latent_size) == (3, 12 + K * 7)
    assert output.policy_logits.shape == (3, K + 1)
    np.testing.assert_allclose(output.value, 0.0, atol=1e-6)
    np.testing.assert_allclose(OUTCOMES(params, output.latent), 0.0, atol=1e-6)
    after = NEXT(params, output.latent, jnp.array([0, 2, K]))
    assert after.latent.shape == output.latent.shape


def test_the_order_of_candidates_does_not_matter() -> None:
    params, seen = parameters(), observations()
    order = np.array([3, 0, 4, 1, 2])
    rows = seen[:, :-2].reshape(3, K, F)
    turned = np.concatenate([rows[:, order].reshape(3, -1), seen[:, -2:]], axis=1)
    one = FIRST(params, jnp.asarray(seen))
    other = FIRST(params, jnp.asarray(turned))
    np.testing.assert_allclose(other.policy_logits[:, :-1], one.policy_logits[:, order], atol=1e-4)
    np.testing.assert_allclose(other.policy_logits[:, -1], one.policy_logits[:, -1], atol=1e-4)
    np.testing.assert_allclose(other.value, one.value, atol=1e-4)
    place = int(np.flatnonzero(order == 2)[0])
    made = NEXT(params, one.latent, jnp.full(3, 2))
    turned_made = NEXT(params, other.latent, jnp.full(3, place))
    np.testing.assert_allclose(turned_made.reward, made.reward, atol=1e-4)
    np.testing.assert_allclose(turned_made.policy_logits[:, :-1], made.policy_logits[:, order], atol=1e-4)


def test_every_candidate_and_the_action_reach_the_next_state() -> None:
    params, seen = parameters(), observations(1)
    latent = REPRESENT(params, jnp.asarray(seen))
    nexts = [np.asarray(TRANSITION(params, latent, jnp.array([action]))[0]) for action in range(K + 1)]
    for action in range(K):
        assert not np.allclose(nexts[action], nexts[action + 1])
    rewards = [np.asarray(TRANSITION(params, latent, jnp.array([action]))[1]) for action in range(K + 1)]
    assert len({reward.tobytes() for reward in rewards}) == K + 1


def test_a_missing_candidate_has_an_empty_embedding() -> None:
    params, seen = parameters(), observations(1)
    seen[:, F : 2 * F] = 0.0
    latent = np.asarray(REPRESENT(params, jnp.asarray(seen)))
    assert not latent[0, 7:14].any()
    assert latent[0, :7].any()


def test_numpy_scores_are_those_of_the_network() -> None:
    params = parameters()
    draw = np.random.default_rng(2)
    rows = draw.normal(size=(30, ROW)).astype(np.float32)
    row, choice = draw.integers(0, 30, 200), draw.integers(0, CHOICES, 200)
    scorer = NumpyScorer(jax.device_get(params), ROW)
    assert scorer.choices == CHOICES
    features = np.concatenate([np.ones((200, 1)), rows[row], np.eye(CHOICES)[choice]], axis=1).astype(np.float32)
    expected = np.asarray(NETWORK.score(params, jnp.asarray(features)))
    np.testing.assert_allclose(scorer(rows, row, choice), expected, atol=1e-4)
    # And those that the outcome head gives to the candidates of a latent state.
    latent = REPRESENT(params, jnp.asarray(np.concatenate([features[:K].reshape(-1), [0.0, 0.0]])[None]))
    np.testing.assert_allclose(OUTCOMES(params, latent)[0], expected[:K], atol=1e-4)


@pytest.mark.parametrize(
    ("sizes", "message"), [({"num_actions": K}, "6 actions"), ({"candidate_size": 40}, "do not fit")]
)
def test_sizes_that_do_not_fit_are_refused(sizes: dict[str, int], message: str) -> None:
    given = {"observation_size": K * F + 2, "num_actions": K + 1, "candidates": K, "candidate_size": F}
    with pytest.raises(UserError, match=message):
        NetworkConfig(**{**given, **sizes})
