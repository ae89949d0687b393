"""Discrete soft actor-critic for games of one step: the whole mapping is one action, its reward the whole return.

After Haarnoja et al. (arXiv 1801.01290) and Christodoulou (arXiv 1910.07207), factored as in Khadka et al. (arXiv
2007.07298): the policy has a distribution per node, the critic a value per node and home, and the value of a mapping
is the mean over its nodes. The expectation in the actor's loss is therefore exact. With one step there is no value to
bootstrap from, and no target network.

Shapes: `B` batch, `N` nodes, `H` homes, `D` parameters.
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
    """The state of training.

    Attributes:
      actor: `[D]` parameters of the policy.
      critics: `[2, D]` parameters of two critics.
      actor_opt, critic_opt: states of the optimisers.
    """

    actor: jax.Array
    critics: jax.Array
    actor_opt: optax.OptState
    critic_opt: optax.OptState


class Played(NamedTuple):
    """A batch of mappings from the replay buffer.

    Attributes:
      homes: `[B, N]` int32; padded nodes may hold any home.
      reward: `[B]` float32.
    """

    homes: jax.Array
    reward: jax.Array


Update = Callable[[SacState, Graph, Played], tuple[SacState, Metrics]]


def init_sac(network: GraphNetwork, config: SacConfig, seed: int) -> SacState:
    """Returns the state before the first update."""
    rows = jnp.asarray(network.homes.init(seed, 3))
    return SacState(
        actor=rows[0],
        critics=rows[1:],
        actor_opt=_optimiser(config.actor_rate, config).init(rows[0]),
        critic_opt=_optimiser(config.critic_rate, config).init(rows[1:]),
    )


@cache
def make_update(network: GraphNetwork, config: SacConfig) -> Update:
    """Returns `update(state, graph, played) -> (state, metrics)`, compiled; `metrics` are scalars by name."""
    actor_optimiser, critic_optimiser = _optimiser(config.actor_rate, config), _optimiser(config.critic_rate, config)
    both = jax.vmap(network.homes, in_axes=(0, None))

    def mean(per_node: jax.Array, graph: Graph) -> jax.Array:
        return jnp.sum(per_node * graph.real, axis=-1) / jnp.maximum(jnp.sum(graph.real), 1.0)

    def critic_loss(critics: jax.Array, graph: Graph, played: Played) -> jax.Array:
        chosen = jax.nn.one_hot(played.homes, network.config.homes)
        values = mean(jnp.einsum("cnh,bnh->cbn", both(critics, graph), chosen), graph)
        return jnp.mean((values - played.reward[None, :]) ** 2)

    def actor_loss(actor: jax.Array, critics: jax.Array, graph: Graph) -> tuple[jax.Array, Metrics]:
        logarithms = jax.nn.log_softmax(network.homes(actor, graph))
        chances = jnp.exp(logarithms)
        value = mean(jnp.sum(chances * jnp.min(both(critics, graph), axis=0), axis=-1), graph)
        entropy = mean(-jnp.sum(chances * logarithms, axis=-1), graph)
        return -value - config.entropy * entropy, {"value": value, "entropy": entropy}

    @jax.jit
    def update(state: SacState, graph: Graph, played: Played) -> tuple[SacState, Metrics]:
        loss, gradient = jax.value_and_grad(critic_loss)(state.critics, graph, played)
        step, critic_opt = critic_optimiser.update(gradient, state.critic_opt, state.critics)
        critics = state.critics + step
        gradient, metrics = jax.grad(actor_loss, has_aux=True)(state.actor, critics, graph)
        step, actor_opt = actor_optimiser.update(gradient, state.actor_opt, state.actor)
        return SacState(state.actor + step, critics, actor_opt, critic_opt), {**metrics, "critic_loss": loss}

    return update


def _optimiser(rate: float, config: SacConfig) -> optax.GradientTransformation:
    return optax.chain(optax.clip_by_global_norm(config.clip_norm), optax.adam(rate))
