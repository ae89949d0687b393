"""The policy head alone, compiled: what search, evaluation and the solver `guided` ask of a network.

Shapes: `B` batch, `D` observation size, `A` actions.
"""

import functools

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from .network import Network, Params


@functools.partial(jax.jit, static_argnames=("network",))
def log_policy(network: Network, params: Params, observations: ArrayLike, legal: ArrayLike) -> jax.Array:
    """Returns log-probabilities `[B, A]` for observations `[B, D]`; minus infinity where `legal[B, A]` is false."""
    logits = network.initial_inference(params, jnp.asarray(observations)).policy_logits
    return jax.nn.log_softmax(jnp.where(jnp.asarray(legal), logits, -jnp.inf), axis=-1)
