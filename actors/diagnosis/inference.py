"""Runs the network and its search on many positions, in batches of one size.

Shapes: `N` positions, `O` observation size, `W` width of the latent state, `A` moves.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ...learner.networks.network import Network, NetworkOutput, Params
from ..search.search import SearchConfig, search

_BATCH = 256
_SEARCH_BATCH = 64


class Heads(NamedTuple):
    """Outputs of the network at real observations.

    Attributes:
      latent: `[N, W]`.
      value: `[N]`.
      logits: `[N, A]`, illegal moves not masked.
    """

    latent: NDArray[np.float32]
    value: NDArray[np.float64]
    logits: NDArray[np.float64]


def infer(network: Network, params: Params, observations: NDArray[np.float32]) -> Heads:
    """Returns the network's outputs at observations `[N, O]`."""
    outputs = []
    for begin in range(0, len(observations), _BATCH):
        rows = observations[begin : begin + _BATCH]
        output = initial(network, params, jnp.asarray(_padded(rows, _BATCH)))
        outputs.append([np.asarray(part)[: len(rows)] for part in (output.latent, output.value, output.policy_logits)])
    latent, value, logits = (np.concatenate(parts) for parts in zip(*outputs, strict=True))
    return Heads(latent, value.astype(np.float64), logits.astype(np.float64))


def search_moves(
    network: Network,
    params: Params,
    observations: NDArray[np.float32],
    legal: NDArray[np.bool_],
    config: SearchConfig,
    seed: int,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Returns the search's moves `[N]`, without exploration noise, and its improved policy `[N, A]`."""
    moves, weights, root = [], [], jax.random.key(seed)
    for begin in range(0, len(observations), _SEARCH_BATCH):
        rows, may = observations[begin : begin + _SEARCH_BATCH], legal[begin : begin + _SEARCH_BATCH]
        key = jax.random.fold_in(root, begin)
        padded = _padded(rows, _SEARCH_BATCH), _padded(may, _SEARCH_BATCH)
        result = search(network, params, key, *padded, config.quiet())
        moves.append(np.asarray(result.action)[: len(rows)])
        weights.append(np.asarray(result.action_weights)[: len(rows)])
    return np.concatenate(moves).astype(np.int64), np.concatenate(weights).astype(np.float64)


@functools.partial(jax.jit, static_argnames=("network",))
def initial(network: Network, params: Params, observations: jax.Array) -> NetworkOutput:
    """See `Network.initial_inference`."""
    return network.initial_inference(params, observations)


@functools.partial(jax.jit, static_argnames=("network",))
def recurrent(network: Network, params: Params, latent: jax.Array, action: jax.Array) -> NetworkOutput:
    """See `Network.recurrent_inference`."""
    return network.recurrent_inference(params, latent, action)


@functools.partial(jax.jit, static_argnames=("network", "online"))
def project(network: Network, params: Params, latent: jax.Array, online: bool) -> jax.Array:
    """See `Network.project`."""
    return network.project(params, latent, online)


def masked_log_softmax(logits: NDArray[np.float64], legal: NDArray[np.bool_] | None = None) -> NDArray[np.float64]:
    """Returns log-probabilities `[..., A]`; minus infinity for illegal moves."""
    masked = logits if legal is None else np.where(legal, logits, -np.inf)
    shifted = masked - masked.max(-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(-1, keepdims=True)))


def _padded(rows: np.ndarray, count: int) -> np.ndarray:
    """Returns `rows`, repeated until there are `count`: all batches have one shape, hence one compilation."""
    return rows if len(rows) == count else rows[np.arange(count) % len(rows)]
