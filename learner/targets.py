"""Training targets of the value, reward and policy heads.

Shapes: `B` segments, `S = K + td_steps + 1` steps each, `K` unroll steps, `A` actions.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from .batch import TrainingBatch
from .config import MAX, STORED, LearnerConfig
from .networks.network import Network, Params


class Targets(NamedTuple):
    """Targets of one batch; no gradient passes through them.

    value: `[B, K + 1]` discounted return from each unrolled step on; zero after an episode's end.
    reward: `[B, K]` reward of the transition into unrolled step `k + 1`; zero after an episode's end.
    policy: `[B, K + 1, A]` action weights of the search.
    outcome: `[B, K + 1, A]` reward of each action, NaN where it is unknown.
    valid: `[B, K + 1]` bool, False after an episode's end, where there is neither a policy nor an observation.
    """

    value: jax.Array
    reward: jax.Array
    policy: jax.Array
    outcome: jax.Array
    valid: jax.Array


def make_targets(network: Network, target_params: Params, batch: TrainingBatch, config: LearnerConfig) -> Targets:
    """Returns the targets of a batch; the target network predicts the bootstrap values anew, where they are needed."""
    last = config.unroll_steps + 1
    valid = batch.valid[:, :last]
    if config.value_target == STORED:
        value = jnp.where(valid, batch.value[:, :last], 0.0)
    else:
        bootstrap = bootstrap_values(network, target_params, batch.observation[:, config.td_steps :])
        value = n_step_returns(batch.reward, batch.discount, bootstrap, config.td_steps, config.discount)
        if config.value_target == MAX:
            value = jnp.where(valid, jnp.maximum(value, batch.value[:, :last]), value)
    targets = Targets(value, batch.reward[:, : last - 1], batch.policy[:, :last], batch.outcome[:, :last], valid)
    return jax.lax.stop_gradient(targets)


def bootstrap_values(network: Network, params: Params, observation: jax.Array) -> jax.Array:
    """Returns the values `[B, N]` of observations `[B, N, D]`."""
    rows = observation.reshape(-1, observation.shape[-1])
    return network.initial_inference(params, rows).value.reshape(observation.shape[:2])


def n_step_returns(
    reward: jax.Array, discount: jax.Array, bootstrap: jax.Array, td_steps: int, gamma: float
) -> jax.Array:
    """Returns n-step returns `[B, K + 1]`: `td_steps` rewards, then the bootstrap value of the step reached.

    Args:
      reward: `[B, S]`.
      discount: `[B, S]`, 0 on the last step of an episode, which drops all that follows, the bootstrap included.
      bootstrap: `[B, K + 1]`, values of steps `td_steps .. td_steps + K`.
      td_steps: number of rewards.
      gamma: discount per move.
    """
    count = bootstrap.shape[1]
    returns = bootstrap
    for offset in reversed(range(td_steps)):
        steps = slice(offset, offset + count)
        returns = reward[:, steps] + gamma * discount[:, steps] * returns
    return returns
