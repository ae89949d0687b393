"""The batch of the update step: a replay batch with importance weights, as a JAX pytree."""

from typing import Any, NamedTuple

import jax
import numpy as np
from jax.typing import ArrayLike
from numpy.typing import NDArray

from ..replay.segment import Batch


class TrainingBatch(NamedTuple):
    """`B` segments of `S = unroll_steps + td_steps + 1` steps; `D` observation size, `A` actions.

    observation: `[B, S, D]` float32.
    legal: `[B, S, A]` bool.
    action: `[B, S]` int32.
    reward: `[B, S]` float32, reward of the action taken at that step.
    discount: `[B, S]` float32, 0 on the last step of an episode, else 1.
    policy: `[B, S, A]` float32, action weights of the search.
    value: `[B, S]` float32, root value of the search.
    outcome: `[B, S, A]` float32, the reward of each action where the real game has reported it, else NaN.
    valid: `[B, S]` bool, False on the absorbing steps after an episode's end.
    weight: `[B]` float32, importance weights, at most 1.
    """

    observation: jax.Array
    legal: jax.Array
    action: jax.Array
    reward: jax.Array
    discount: jax.Array
    policy: jax.Array
    value: jax.Array
    outcome: jax.Array
    valid: jax.Array
    weight: jax.Array


def training_batch(batch: Batch, importance_exponent: float) -> TrainingBatch:
    """Returns the training batch of a sampled replay batch, in NumPy; see `importance_weights` for the exponent."""
    fields: dict[str, Any] = {name: getattr(batch, name) for name in TrainingBatch._fields if name != "weight"}
    fields["weight"] = importance_weights(batch.probability, batch.table_size, importance_exponent)
    return TrainingBatch(**fields)


def importance_weights(probability: ArrayLike, table_size: int, exponent: float) -> NDArray[np.float32]:
    """Returns weights `[B]` that undo prioritised sampling: `(table_size * probability) ** -exponent`, at most 1.

    The exponent is beta of prioritised experience replay (arXiv 1511.05952): 1 undoes it fully, 0 not at all. The
    largest weight of the batch is scaled to 1.

    Raises:
      ValueError: a probability is not positive.
    """
    probability = np.asarray(probability, np.float64)
    if not (probability > 0).all():
        raise ValueError(f"sampling probabilities must be positive, the smallest is {probability.min()}")
    weight = (table_size * probability) ** -exponent
    return (weight / weight.max()).astype(np.float32)
