"""Discrete soft actor-critic for games of one step: the whole mapping is one action, its reward the whole return.

After Haarnoja et al. (arXiv 1801.01290) with the factored discrete policy of Khadka et al. (arXiv 2007.07298): one
distribution per node. The critic is fitted to mappings that were played; the actor follows its gradient through the
probabilities. To make the critic smooth between the corners it has seen, it is fitted to one-hot mappings with noise.
Nothing follows the one step, so there is nothing to bootstrap from, and no target network.

Shapes: `B` batch, `N` nodes, `H` homes, `D` parameters of the policy, `E` of a critic.
"""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import flax.struct
import jax
import jax.numpy as jnp
import optax

from .config import SacConfig
from .networks import GraphNetwork
from .unet import Graph

Metrics = dict[str, jax.Array]


class SacState(flax.struct.PyTreeNode):
    """Everything an update carries on.

    Attributes:
      actor: `[D]` parameters of the policy.
      critics: `[2, E]` parameters of two critics.
      actor_opt, critic_opt: states of the optimisers.
      key: the random key of the next update.
    """

    actor: jax.Array
    critics: jax.Array
    actor_opt: optax.OptState
    critic_opt: optax.OptState
    key: jax.Array


class Played(NamedTuple):
    """A batch of mappings from the replay buffer.

    Attributes:
      homes: `[B, N]` int32, any number where padded.
      reward: `[B]` float32.
    """

    homes: jax.Array
    reward: jax.Array


Update = Callable[[SacState, Graph, Played], tuple[SacState, Metrics]]


def init_sac(network: GraphNetwork, config: SacConfig, seed: int) -> SacState:
    """Returns the state before the first update."""
    actor = jnp.asarray(network.policy.init(seed, 1)[0])
    critics = jnp.asarray(network.critic.init(seed + 1, 2))
    return SacState(
        actor=actor,
        critics=critics,
        actor_opt=_optimiser(config.actor_rate, config).init(actor),
        critic_opt=_optimiser(config.critic_rate, config).init(critics),
        key=jax.random.PRNGKey(seed),
    )


@cache
def make_update(network: GraphNetwork, config: SacConfig) -> Update:
    """Returns `update(state, graph, played) -> (state, metrics)`, compiled; `metrics` are scalars by name."""
    actor_optimiser, critic_optimiser = _optimiser(config.actor_rate, config), _optimiser(config.critic_rate, config)
    both = jax.vmap(network.critic, in_axes=(0, None, None))
    both_of_all = jax.vmap(both, in_axes=(None, None, 0))

    def critic_loss(critics: jax.Array, graph: Graph, mappings: jax.Array, reward: jax.Array) -> jax.Array:
        return jnp.mean((both_of_all(critics, graph, mappings) - reward[:, None]) ** 2)

    def actor_loss(actor: jax.Array, critics: jax.Array, graph: Graph) -> tuple[jax.Array, Metrics]:
        chances = jax.nn.softmax(network.policy(actor, graph))
        value = jnp.min(both(critics, graph, chances))
        per_node = -jnp.sum(chances * jnp.log(jnp.maximum(chances, 1e-12)), axis=-1)
        entropy = jnp.sum(per_node * graph.real) / jnp.maximum(jnp.sum(graph.real), 1.0)
        return -value - config.entropy * entropy, {"value": value, "entropy": entropy}

    @jax.jit
    def update(state: SacState, graph: Graph, played: Played) -> tuple[SacState, Metrics]:
        key, noise_key = jax.random.split(state.key)
        mappings = jax.nn.one_hot(played.homes, network.config.homes)
        noise = config.noise * jax.random.truncated_normal(noise_key, -2.0, 2.0, mappings.shape)
        loss, gradient = jax.value_and_grad(critic_loss)(state.critics, graph, mappings + noise, played.reward)
        step, critic_opt = critic_optimiser.update(gradient, state.critic_opt, state.critics)
        critics = state.critics + step
        gradient, metrics = jax.grad(actor_loss, has_aux=True)(state.actor, critics, graph)
        step, actor_opt = actor_optimiser.update(gradient, state.actor_opt, state.actor)
        return SacState(state.actor + step, critics, actor_opt, critic_opt, key), {**metrics, "critic_loss": loss}

    return update


def _optimiser(rate: float, config: SacConfig) -> optax.GradientTransformation:
    return optax.chain(optax.clip_by_global_norm(config.clip_norm), optax.adam(rate))
