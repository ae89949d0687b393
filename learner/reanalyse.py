"""Reanalyse: fresh policy and value targets for old data, from a search with newer parameters (MuZero, appendix H)."""

from typing import Protocol

import jax

from .batch import TrainingBatch
from .config import LearnerConfig
from .networks.network import Params


class Searched(Protocol):
    """The result of a search: `action_weights` `[N, A]` and `value` `[N]`."""

    @property
    def action_weights(self) -> jax.Array: ...

    @property
    def value(self) -> jax.Array: ...


class SearchFunction(Protocol):
    """A search of `N` roots that `jax.jit` can trace: observations `[N, D]`, legal moves `[N, A]`."""

    def __call__(self, params: Params, key: jax.Array, observation: jax.Array, legal: jax.Array) -> Searched: ...


def reanalyse(
    search: SearchFunction, params: Params, key: jax.Array, batch: TrainingBatch, config: LearnerConfig
) -> TrainingBatch:
    """Returns the batch with policy and search value of its first rows searched anew, at every unrolled step.

    Rows are drawn independently, so the first `reanalyse_fraction` of them are a random part of the batch.
    """
    rows = round(config.reanalyse_fraction * batch.action.shape[0])
    if rows == 0:
        return batch
    steps = config.unroll_steps + 1
    observation = batch.observation[:rows, :steps]
    legal = batch.legal[:rows, :steps]
    found = search(params, key, observation.reshape(rows * steps, -1), legal.reshape(rows * steps, -1))
    return batch._replace(
        policy=batch.policy.at[:rows, :steps].set(found.action_weights.reshape(legal.shape)),
        value=batch.value.at[:rows, :steps].set(found.value.reshape(rows, steps)),
    )
