"""The unrolled loss of MuZero, with the consistency loss of EfficientZero.

Shapes: `B` segments, `K` unroll steps, `A` actions, `W` width of the latent state.
"""

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from .batch import TrainingBatch
from .config import LearnerConfig
from .networks.network import Network, Params
from .targets import Targets

# A reward that counts as a gain: a hundredth of a per cent.
_CLEAR_GAIN = 0.01
_MASKED_LOGIT = -1e9  # finite, so that a target of zero on a masked move gives a loss of zero, not NaN


class LossOutput(NamedTuple):
    """The results beside the loss itself.

    priorities: `[B]` mean absolute value error over the valid unrolled steps.
    metrics: scalars by name.
    """

    priorities: jax.Array
    metrics: dict[str, jax.Array]


def unrolled_loss(
    params: Params,
    network: Network,
    batch: TrainingBatch,
    targets: Targets,
    action_key: jax.Array,
    config: LearnerConfig,
) -> tuple[jax.Array, LossOutput]:
    """Returns the loss of a batch: unrolls the model along the actions played; compares each step with its targets.

    Policy: cross-entropy against the action weights. Illegal moves are masked at step 0, as the search masks them at
    its root. At later steps they are not: inside its tree the search cannot tell which moves are legal, so the prior
    itself has to learn that illegal moves get no weight. Steps after an episode's end have no policy loss.
    Value, reward: cross-entropy in the codec's classes. Steps after the end are absorbing: both are trained to zero
    there, after random actions, because the search cannot tell that the episode is over.
    Outcome (networks that choose among candidates): see `_outcome_loss`.
    Consistency: 1 - cosine between the projections of the unrolled latent and of the latent of the step's observation.
    Gradients halve at each input of the dynamics; steps after the first weigh `1 / K` (MuZero, appendix G).

    Args:
      params: parameters of the network.
      network: the network.
      batch: the segments.
      targets: their targets.
      action_key: key of the random actions.
      config: hyper-parameters.

    Returns:
      The loss, and `LossOutput`.
    """
    steps = config.unroll_steps
    latents, reward_logits = _unroll(params, network, batch, action_key, steps)
    policy_logits, value_logits = network.predict(params, latents)
    rows = batch.weight.shape[0]
    chex.assert_shape(latents, (rows, steps + 1, network.config.latent_size))
    chex.assert_shape([policy_logits, targets.policy], (rows, steps + 1, network.config.num_actions))
    chex.assert_shape([targets.value, targets.valid], (rows, steps + 1))
    chex.assert_shape(targets.reward, (rows, steps))
    per_step = jnp.concatenate([jnp.ones(1), jnp.full(steps, 1.0 / steps)])  # [K + 1]

    log_policy = _log_policy(policy_logits, batch.legal[:, 0])
    policy_loss = -jnp.sum(targets.policy * log_policy, axis=-1) * targets.valid
    value_loss = _cross_entropy(network.config.value.encode(targets.value), value_logits)
    reward_loss = _cross_entropy(network.config.reward.encode(targets.reward), reward_logits)
    consistency_loss = _consistency_loss(params, network, batch, latents, targets.valid)
    outcome_loss = _outcome_loss(params, network, targets, latents)

    losses = {  # [B] each
        "policy": jnp.sum(policy_loss * per_step, axis=-1),
        "value": jnp.sum(value_loss * per_step, axis=-1),
        "reward": jnp.mean(reward_loss, axis=-1),
        "consistency": jnp.mean(consistency_loss, axis=-1),
        "outcome": jnp.sum(outcome_loss * per_step, axis=-1),
    }
    weighted = (
        config.policy_weight * losses["policy"]
        + config.value_weight * losses["value"]
        + config.reward_weight * losses["reward"]
        + config.consistency_weight * losses["consistency"]
        + config.outcome_weight * losses["outcome"]
    )
    total = jnp.mean(batch.weight * weighted)

    value_error = jnp.abs(network.config.value.decode(value_logits) - targets.value)
    reward_error = jnp.abs(network.config.reward.decode(reward_logits) - targets.reward)
    target_log = jnp.log(jnp.maximum(targets.policy[:, 0], 1e-30))
    metrics = {
        "loss": total,
        **{f"loss_{name}": jnp.mean(loss) for name, loss in losses.items()},
        "value_error": _masked_mean(value_error, targets.valid),
        "value_error_root": _masked_mean(value_error[:, 0], targets.valid[:, 0]),
        "value_target": _masked_mean(targets.value, targets.valid),
        "reward_error": _masked_mean(reward_error, targets.valid[:, :-1]),
        "policy_entropy": _masked_mean(_entropy(jnp.exp(log_policy[:, 0]), log_policy[:, 0]), targets.valid[:, 0]),
        "target_entropy": _masked_mean(_entropy(targets.policy[:, 0], target_log), targets.valid[:, 0]),
        "policy_kl": _masked_mean(
            jnp.sum(targets.policy[:, 0] * (target_log - log_policy[:, 0]), axis=-1), targets.valid[:, 0]
        ),
        "valid_fraction": jnp.mean(targets.valid),
        "importance_weight": jnp.mean(batch.weight),
    }
    priorities = jnp.sum(value_error * targets.valid, axis=-1) / jnp.maximum(1, jnp.sum(targets.valid, axis=-1))
    return total, LossOutput(priorities, metrics)


def scale_gradient(values: jax.Array, factor: float) -> jax.Array:
    """Returns the values themselves, with `factor` times their gradient."""
    return values * factor + jax.lax.stop_gradient(values) * (1.0 - factor)


def _unroll(
    params: Params, network: Network, batch: TrainingBatch, key: jax.Array, steps: int
) -> tuple[jax.Array, jax.Array]:
    """Returns latent states `[B, K + 1, W]` and reward logits `[B, K, bins]` along the actions played."""
    actions = batch.action[:, :steps]
    random_actions = jax.random.randint(key, actions.shape, 0, network.config.num_actions)
    actions = jnp.where(batch.valid[:, :steps], actions, random_actions)
    latent = network.represent(params, batch.observation[:, 0])
    latents, reward_logits = [latent], []
    for step in range(steps):
        latent, logits = network.transition(params, scale_gradient(latent, 0.5), actions[:, step])
        latents.append(latent)
        reward_logits.append(logits)
    return jnp.stack(latents, axis=1), jnp.stack(reward_logits, axis=1)


def _log_policy(logits: jax.Array, root_legal: jax.Array) -> jax.Array:
    """Returns log-probabilities `[B, K + 1, A]`; illegal moves are masked at step 0 only."""
    root = jnp.where(root_legal, logits[:, 0], _MASKED_LOGIT)
    return jax.nn.log_softmax(jnp.concatenate([root[:, None], logits[:, 1:]], axis=1), axis=-1)


def _consistency_loss(
    params: Params, network: Network, batch: TrainingBatch, latents: jax.Array, valid: jax.Array
) -> jax.Array:
    """Returns `[B, K]`, 1 - cosine between projections; zero after an episode's end."""
    steps = latents.shape[1] - 1
    observed = batch.observation[:, 1 : steps + 1]
    seen = network.represent(params, observed.reshape(-1, observed.shape[-1]))
    wanted = jax.lax.stop_gradient(network.project(params, seen, online=False)).reshape(*observed.shape[:2], -1)
    imagined = network.project(params, latents[:, 1:], online=True)
    return (1.0 - _cosine(imagined, wanted)) * valid[:, 1:]


def _outcome_loss(params: Params, network: Network, targets: Targets, latents: jax.Array) -> jax.Array:
    """Returns `[B, K + 1]`, the mean over the candidates whose outcome is known; zero without any.

    A candidate's reward is predicted in a logarithmic scale (Huber loss), and the chance that it is a clear gain by
    cross-entropy. Gains are rare and matter most: they weigh more.
    """
    if not network.config.candidates:
        return jnp.zeros(latents.shape[:2])
    predicted = network.outcomes(params, latents)
    outcome = targets.outcome[..., : network.config.candidates]
    known = jnp.logical_and(jnp.logical_not(jnp.isnan(outcome)), targets.valid[..., None])
    outcome = jnp.where(known, outcome, 0.0)
    gains = outcome > _CLEAR_GAIN
    error = predicted[..., 0] - compress(outcome)
    size = jnp.abs(error)
    regression = jnp.where(size < 1.0, 0.5 * error**2, size - 0.5) * jnp.where(gains, 5.0, 1.0)
    chance = (jax.nn.softplus(predicted[..., 1]) - gains * predicted[..., 1]) * jnp.where(gains, 2.0, 1.0)
    return jnp.sum((regression + chance) * known, axis=-1) / jnp.maximum(1, jnp.sum(known, axis=-1))


def compress(outcome: jax.Array) -> jax.Array:
    """Returns rewards in the scale that the outcome head predicts them in, linear below some hundredths."""
    return 0.5 * jnp.sign(outcome) * jnp.log1p(jnp.abs(outcome) / 0.02)


def _cosine(left: jax.Array, right: jax.Array) -> jax.Array:
    def unit(vectors: jax.Array) -> jax.Array:
        # The epsilon is inside the root: the gradient at a zero vector stays finite.
        return vectors * jax.lax.rsqrt(jnp.sum(vectors**2, axis=-1, keepdims=True) + 1e-8)

    return jnp.sum(unit(left) * unit(right), axis=-1)


def _cross_entropy(probabilities: jax.Array, logits: jax.Array) -> jax.Array:
    return -jnp.sum(probabilities * jax.nn.log_softmax(logits, axis=-1), axis=-1)


def _entropy(probabilities: jax.Array, log_probabilities: jax.Array) -> jax.Array:
    return -jnp.sum(probabilities * log_probabilities, axis=-1)


def _masked_mean(values: jax.Array, mask: jax.Array) -> jax.Array:
    return jnp.sum(values * mask) / jnp.maximum(1, jnp.sum(mask))
