"""Batched Gumbel MuZero search (Danihelka et al., ICLR 2022) over the learned model, with mctx.

Shapes: `B` batch, `D` observation size, `A` actions.
"""

import dataclasses
import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import mctx
import numpy as np
from jax.typing import ArrayLike

from ...env.errors import UserError
from ...learner.networks.network import Network, Params
from ...learner.networks.policy_head import log_policy

GAP = "gap"
MCTX = "mctx"


@dataclass(frozen=True)
class SearchConfig:
    """Settings of the search. Hashable: one compilation per configuration and batch size.

    Attributes:
      simulations: network evaluations per move.
      max_considered: most moves that sequential halving considers at the root.
      gumbel_scale: scale of the exploration noise at the root; 0 makes the search deterministic, for evaluation.
      discount: per move; the same as the learner's.
      q_epsilon: gap between two Q-values, in units of return, that counts as clear (`transform_q`). It is about the
        error of the values after some minutes of training; with a smaller one the search follows their noise. Where
        the real game tells the rewards at the root, it is about the gain of a good move.
      value_scale, maxvisit_init: a Q-value far more than `q_epsilon` below the best one loses up to
        `value_scale * (maxvisit_init + visits of the most visited move)` in logits.
      max_depth: longest line of play inside the tree; None for no limit.
      q_transform: the transform of Q-values into logits: `gap` (`transform_q`), or `mctx`, the library's
        `qtransform_completed_by_mix_value` with the same scale, for comparison.
    """

    simulations: int = 8
    max_considered: int = 3
    gumbel_scale: float = 1.0
    discount: float = 1.0
    q_epsilon: float = 0.3
    value_scale: float = 0.1
    maxvisit_init: float = 50.0
    max_depth: int | None = None
    q_transform: str = GAP

    def __post_init__(self) -> None:
        for name in ("simulations", "max_considered"):
            if getattr(self, name) < 1:
                raise UserError(f"search: {name} must be at least 1, not {getattr(self, name)}")
        if self.max_depth is not None and self.max_depth < 1:
            raise UserError(f"search: max_depth must be at least 1 or None, not {self.max_depth}")
        for name in ("gumbel_scale", "value_scale", "maxvisit_init"):
            if not getattr(self, name) >= 0.0:
                raise UserError(f"search: {name} must not be negative, not {getattr(self, name)}")
        if not 0.0 < self.discount <= 1.0:
            raise UserError(f"search: discount must be in (0, 1], not {self.discount}")
        if not self.q_epsilon > 0.0:
            raise UserError(f"search: q_epsilon must be positive, not {self.q_epsilon}")
        if self.q_transform not in (GAP, MCTX):
            raise UserError(f"search: q_transform must be {GAP} or {MCTX}, not {self.q_transform!r}")

    def quiet(self) -> "SearchConfig":
        """Returns the same settings without exploration noise, for evaluation."""
        return dataclasses.replace(self, gumbel_scale=0.0)


class SearchResult(NamedTuple):
    """The result of the search for a batch of positions.

    Attributes:
      action: `[B]` int32, the move to play, always legal.
      action_weights: `[B, A]` float32, the improved policy: the target of the policy head, zero on illegal moves.
      value: `[B]` float32, value of the root under the improved policy.
    """

    action: jax.Array
    action_weights: jax.Array
    value: jax.Array


def search(
    network: Network,
    params: Params,
    key: jax.Array,
    observations: ArrayLike,
    legal: ArrayLike,
    config: SearchConfig,
    outcomes: ArrayLike | None = None,
) -> SearchResult:
    """Searches from observations `[B, D]` with legal moves `[B, A]` (bool).

    With `outcomes`, `[B, A]` float32, the rewards of moves at the root are the real game's, and the model continues
    from there. NaN marks a move whose reward the model must predict.

    Raises `ValueError` if `legal` is a NumPy array with a row without legal moves. Inside `jax.jit` values cannot be
    checked, and such a row gets action 0.
    """
    _check_legal(legal)
    observations, legal = jnp.asarray(observations), jnp.asarray(legal)
    known = jnp.full(legal.shape, jnp.nan, jnp.float32) if outcomes is None else jnp.asarray(outcomes, jnp.float32)
    return _search(network, params, key, observations, legal, known, config)


@functools.partial(jax.jit, static_argnames=("network", "config"))
def _search(
    network: Network,
    params: Params,
    key: jax.Array,
    observations: jax.Array,
    legal: jax.Array,
    outcomes: jax.Array,
    config: SearchConfig,
) -> SearchResult:
    # A node carries its latent state and the known rewards of its moves, which only the root's are.
    Node = tuple[jax.Array, jax.Array]

    def expand(params: Any, key: jax.Array, action: Any, node: Node) -> tuple[mctx.RecurrentFnOutput, Node]:
        del key
        latent, known = node
        output = network.recurrent_inference(params, latent, action)
        told = jnp.take_along_axis(known, action[:, None], axis=-1)[:, 0]
        # No discount of 0 after the last move: the learner trains the states after it to reward 0 and value 0.
        expanded = mctx.RecurrentFnOutput(
            reward=jnp.where(jnp.isnan(told), output.reward, told),
            discount=jnp.full_like(output.reward, config.discount),
            prior_logits=output.policy_logits,
            value=output.value,
        )
        return expanded, (output.latent, jnp.full_like(known, jnp.nan))

    chex.assert_rank([observations, legal, outcomes], 2)
    chex.assert_equal_shape_prefix([observations, legal], 1)
    chex.assert_equal_shape([legal, outcomes])
    output = network.initial_inference(params, observations)
    chex.assert_equal_shape([output.policy_logits, legal])
    policy: Any = mctx.gumbel_muzero_policy(
        params,
        key,
        mctx.RootFnOutput(prior_logits=output.policy_logits, value=output.value, embedding=(output.latent, outcomes)),
        expand,
        num_simulations=config.simulations,
        invalid_actions=jnp.logical_not(legal),
        max_depth=config.max_depth,
        qtransform=_transform(config),
        max_num_considered_actions=min(config.max_considered, legal.shape[-1]),
        gumbel_scale=config.gumbel_scale,
    )
    completed = jax.vmap(_completed_q, in_axes=(0, None))(policy.search_tree, policy.search_tree.ROOT_INDEX)
    value = jnp.sum(policy.action_weights * completed, axis=-1)
    chex.assert_equal_shape([policy.action, value, output.value])
    return SearchResult(policy.action.astype(jnp.int32), policy.action_weights, value)


def _transform(config: SearchConfig) -> Any:
    """Returns the configured transform of Q-values."""
    if config.q_transform == GAP:
        return functools.partial(transform_q, config=config)
    return functools.partial(
        mctx.qtransform_completed_by_mix_value, value_scale=config.value_scale, maxvisit_init=config.maxvisit_init
    )


def transform_q(tree: Any, node_index: Any, *, config: SearchConfig) -> jax.Array:
    """Turns the Q-values at a node (unbatched, as mctx calls it) into additions to its prior logits, `[A]`.

    A move whose Q-value is `d` below the best one loses `d / (d + q_epsilon)` of the scale: distances far below
    `q_epsilon` vanish, larger ones saturate.

    mctx's own `qtransform_completed_by_mix_value` divides by the range of the Q-values at the node. In this game, most
    moves hardly matter. Where all Q-values agree up to noise, that division turns the noise into a confident target;
    next to a disastrous move, it hides the difference between two good ones.
    """
    completed = _completed_q(tree, node_index)
    invalid = jnp.logical_and(tree.root_invalid_actions, node_index == tree.ROOT_INDEX)
    best = jnp.max(jnp.where(invalid, -jnp.inf, completed))
    distance = jnp.maximum(0.0, best - completed)
    scale = config.value_scale * (config.maxvisit_init + jnp.max(tree.children_visits[node_index]))
    return -scale * distance / (distance + config.q_epsilon)


def _completed_q(tree: Any, node_index: Any) -> jax.Array:
    """Returns the Q-values `[A]` of a node, with mctx's mixed value for unvisited moves."""
    # With these arguments mctx multiplies the Q-values by 1 + the largest visit count, and does nothing else.
    scaled = mctx.qtransform_completed_by_mix_value(
        tree, node_index, value_scale=1.0, maxvisit_init=1.0, rescale_values=False
    )
    return jnp.asarray(scaled) / (1.0 + jnp.max(tree.children_visits[node_index]))


def greedy(network: Network, params: Params, observations: ArrayLike, legal: ArrayLike) -> jax.Array:
    """Returns the most probable legal move `[B]` (int32) by the policy head alone. Errors as in `search`."""
    _check_legal(legal)
    return _greedy(network, params, jnp.asarray(observations), jnp.asarray(legal))


@functools.partial(jax.jit, static_argnames=("network",))
def _greedy(network: Network, params: Params, observations: jax.Array, legal: jax.Array) -> jax.Array:
    return jnp.argmax(log_policy(network, params, observations, legal), axis=-1).astype(jnp.int32)


def _check_legal(legal: ArrayLike) -> None:
    """Raises ValueError if a NumPy array `legal[B, A]` has a row without legal moves."""
    if isinstance(legal, np.ndarray) and not legal.any(axis=-1).all():
        rows = np.flatnonzero(~legal.any(axis=-1)).tolist()
        raise ValueError(f"search: no legal move in rows {rows}")
