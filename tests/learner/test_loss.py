"""The unrolled loss: what it depends on, what it must not depend on, and where its gradients go."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from learner_cases import make_batch

from mallocmuzero.learner.batch import TrainingBatch, training_batch
from mallocmuzero.learner.config import LearnerConfig
from mallocmuzero.learner.loss import LossOutput, scale_gradient, unrolled_loss
from mallocmuzero.learner.networks.network import Network, NetworkConfig, Params
from mallocmuzero.learner.targets import make_targets

CONFIG = LearnerConfig(batch_size=3, unroll_steps=3, td_steps=2)
NETWORK = Network(NetworkConfig(observation_size=6, width=16, projection_width=8))
LOSSES = ("loss_policy", "loss_value", "loss_reward", "loss_consistency")
ENDING = [9, 9, 2]  # the third episode ends inside the unroll


@pytest.fixture(scope="module")
def params() -> Params:
    """Random parameters, the output layers too: at their zeros most gradients vanish."""
    fresh = NETWORK.init(jax.random.PRNGKey(0))
    generator = np.random.default_rng(1)
    return jax.tree.map(lambda leaf: np.asarray(leaf) + 0.3 * generator.normal(size=leaf.shape).astype("f4"), fresh)


def batch_of(**changes: Any) -> TrainingBatch:
    return training_batch(make_batch(CONFIG, 6, ENDING), 0.0)._replace(**changes)


@jax.jit
def loss_of(params: Params, batch: TrainingBatch) -> tuple[jax.Array, LossOutput]:
    targets = make_targets(NETWORK, params, batch, CONFIG)
    return unrolled_loss(params, NETWORK, batch, targets, jax.random.PRNGKey(3), CONFIG)


@jax.jit
def _gradients(params: Params, batch: TrainingBatch, weights: jax.Array) -> tuple[Params, jax.Array]:
    def weighted(params: Params, observation: jax.Array) -> jax.Array:
        moved = batch._replace(observation=observation)
        metrics = unrolled_loss(params, NETWORK, moved, targets, jax.random.PRNGKey(3), CONFIG)[1].metrics
        return sum((weights[i] * metrics[name] for i, name in enumerate(LOSSES)), jnp.zeros(()))

    targets = make_targets(NETWORK, params, batch, CONFIG)
    gradients: tuple[Params, jax.Array] = jax.grad(weighted, argnums=(0, 1))(params, batch.observation)
    return gradients


def gradients_of(params: Params, batch: TrainingBatch, loss: str) -> tuple[Params, jax.Array]:
    """Gradients of one of `LOSSES` by the parameters and by the observations `[B, S, D]`."""
    return _gradients(params, batch, jnp.array([float(name == loss) for name in LOSSES]))


def size(tree: Any) -> float:
    return float(sum(jnp.abs(leaf).sum() for leaf in jax.tree.leaves(tree)))


def test_all_metrics_are_finite_scalars(params: Params) -> None:
    loss, output = loss_of(params, batch_of())
    assert np.isfinite(loss)
    assert output.priorities.shape == (3,)
    assert (np.asarray(output.priorities) >= 0).all()
    for name, value in output.metrics.items():
        assert value.shape == (), name
        assert np.isfinite(value), name
    parts = {
        "policy": CONFIG.policy_weight,
        "value": CONFIG.value_weight,
        "reward": CONFIG.reward_weight,
        "consistency": CONFIG.consistency_weight,
    }
    total = sum(weight * output.metrics[f"loss_{name}"] for name, weight in parts.items())
    assert float(loss) == pytest.approx(float(total), rel=1e-5)


def test_each_loss_trains_the_parts_it_should(params: Params) -> None:
    reached = {
        "policy": {"representation", "dynamics", "prediction"},
        "value": {"representation", "dynamics", "prediction"},
        "reward": {"representation", "dynamics"},
        "consistency": {"representation", "dynamics", "projection", "projection_predictor"},
    }
    for name, parts in reached.items():
        gradient, _ = gradients_of(params, batch_of(), f"loss_{name}")
        assert {part for part in gradient if size(gradient[part]) > 0} == parts, name
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))


def test_importance_weights_scale_each_segment(params: Params) -> None:
    losses = [float(loss_of(params, batch_of(weight=np.eye(3, dtype=np.float32)[row]))[0]) for row in range(3)]
    assert float(loss_of(params, batch_of())[0]) == pytest.approx(sum(losses), rel=1e-5)
    assert len({round(loss, 4) for loss in losses}) == 3


def test_priorities_are_value_errors_of_valid_steps(params: Params) -> None:
    @jax.jit
    def errors(batch: TrainingBatch) -> jax.Array:
        targets = make_targets(NETWORK, params, batch, CONFIG)
        output = NETWORK.initial_inference(params, batch.observation[:, 0])
        values = [output.value]
        for step in range(CONFIG.unroll_steps):
            output = NETWORK.recurrent_inference(params, output.latent, batch.action[:, step])
            values.append(output.value)
        return jnp.abs(jnp.stack(values, axis=1) - targets.value)

    batch = batch_of()
    expected = np.asarray(errors(batch))
    priorities = loss_of(params, batch)[1].priorities
    np.testing.assert_allclose(priorities[:2], expected[:2].mean(-1), rtol=1e-4)
    np.testing.assert_allclose(priorities[2], expected[2, :2].mean(-1), rtol=1e-4)  # two valid steps


def test_root_policy_gets_no_gradient_on_illegal_moves_and_later_steps_do(params: Params) -> None:
    batch = batch_of()

    def bias_gradient(batch: TrainingBatch) -> np.ndarray:
        gradient, _ = gradients_of(params, batch, "loss_policy")
        return np.asarray(gradient["prediction"]["policy"]["dense"]["bias"])

    only_root = np.array([[True, False, False, False, False, False]] * 3)
    legal = np.array(batch.legal)
    legal[:, 0] = [True, True, False]  # move 2 is illegal at every root
    policy = np.array(batch.policy)
    policy[:, :] = [0.5, 0.5, 0.0]
    root_only = batch_of(legal=legal, policy=policy, valid=only_root)
    assert bias_gradient(root_only)[2] == 0.0
    assert bias_gradient(root_only._replace(valid=batch.valid))[2] > 0.0  # descent lowers the logit


def test_absorbing_steps_have_no_policy_or_consistency_loss_and_are_trained_to_zero(params: Params) -> None:
    batch = batch_of()
    changed = np.array(batch.policy)
    changed[2, 2:] = [1.0, 0.0, 0.0]
    observation = np.array(batch.observation)
    observation[2, 2 : CONFIG.unroll_steps + 1] = 7.0
    before = loss_of(params, batch)[1].metrics
    after = loss_of(params, batch_of(policy=changed, observation=observation))[1].metrics
    for name in ("loss_policy", "loss_consistency"):
        assert float(after[name]) == float(before[name])
    rewarded = np.array(batch.reward)
    rewarded[2, 2] = 0.5  # if an absorbing step paid, reward and value losses would change: they are trained there
    paid = loss_of(params, batch_of(reward=rewarded))[1].metrics
    assert float(paid["loss_reward"]) != float(before["loss_reward"])
    assert float(paid["loss_value"]) != float(before["loss_value"])


def test_consistency_does_not_train_its_target(params: Params) -> None:
    _, gradient = gradients_of(params, batch_of(), "loss_consistency")
    assert float(jnp.abs(gradient[:, 0]).max()) > 0  # the unrolled side starts here
    assert float(jnp.abs(gradient[:, 1:]).max()) == 0  # the target side


def test_scale_gradient_keeps_values() -> None:
    values = jnp.array([1.5, -2.0])
    np.testing.assert_array_equal(scale_gradient(values, 0.5), values)
    np.testing.assert_array_equal(jax.grad(lambda v: (scale_gradient(v, 0.5) * 4).sum())(values), [2.0, 2.0])


def test_gradient_halves_at_the_input_of_the_dynamics(params: Params) -> None:
    # Unrolled once, the reward loss sees the observation through one input of the dynamics only, so its gradient is
    # half of what finite differences say.
    config = LearnerConfig(unroll_steps=1, td_steps=2)
    batch = training_batch(make_batch(config, 6, [9, 9, 9]), 0.0)

    @jax.jit
    def reward_loss(root: jax.Array) -> jax.Array:
        moved = batch._replace(observation=jnp.asarray(batch.observation).at[:, 0].set(root))
        targets = make_targets(NETWORK, params, batch, config)
        output = unrolled_loss(params, NETWORK, moved, targets, jax.random.PRNGKey(3), config)[1]
        return output.metrics["loss_reward"]

    root = jnp.asarray(batch.observation[:, 0])
    gradient = jax.grad(reward_loss)(root)
    length = float(jnp.linalg.norm(gradient))
    shift = 3e-3 / length * gradient
    slope = float(reward_loss(root + shift) - reward_loss(root - shift)) / 6e-3
    assert length == pytest.approx(slope / 2, rel=0.05)


@pytest.mark.parametrize("optimum", [True, False])
def test_policy_loss_is_least_at_the_target(optimum: bool) -> None:
    """With a uniform target over legal moves a fresh network's root KL is zero, with another it is not."""
    fresh = NETWORK.init(jax.random.PRNGKey(0))
    legal = np.ones((3, CONFIG.segment_length, 3), bool)
    policy = np.full(legal.shape, 1 / 3, np.float32)
    if not optimum:
        policy[:] = [0.8, 0.1, 0.1]
    metrics = loss_of(fresh, batch_of(legal=legal, policy=policy))[1].metrics
    assert (abs(float(metrics["policy_kl"])) < 1e-6) == optimum
    assert float(metrics["policy_entropy"]) == pytest.approx(np.log(3), rel=1e-5)
