"""The update step: maps a training state and a batch to the next training state."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax

from ..replay.segment import Batch
from .batch import TrainingBatch, training_batch
from .config import LearnerConfig
from .loss import unrolled_loss
from .networks.network import Network, Params
from .reanalyse import SearchFunction, reanalyse
from .state import TrainingState
from .targets import make_targets

Metrics = dict[str, jax.Array]
Update = Callable[[TrainingState, Batch], tuple[TrainingState, Metrics, jax.Array]]


def learning_rate_schedule(config: LearnerConfig) -> optax.Schedule:
    """Returns the learning rate by update: linear warm-up, then constant or falling by a cosine."""
    if config.decay_steps is None:
        after = optax.constant_schedule(config.learning_rate)
    else:
        alpha = config.final_learning_rate / config.learning_rate if config.learning_rate else 1.0
        after = optax.cosine_decay_schedule(config.learning_rate, config.decay_steps, alpha)
    if config.warmup_steps == 0:
        return after
    warmup = optax.linear_schedule(0.0, config.learning_rate, config.warmup_steps)
    return optax.join_schedules([warmup, after], [config.warmup_steps])


def make_optimiser(config: LearnerConfig) -> optax.GradientTransformation:
    """Returns AdamW after a clip of the global gradient norm; weight decay applies to matrices only."""
    return optax.chain(
        optax.clip_by_global_norm(config.clip_norm),
        optax.adamw(
            learning_rate_schedule(config),
            weight_decay=config.weight_decay,
            mask=lambda params: jax.tree.map(lambda leaf: leaf.ndim > 1, params),
        ),
    )


def make_update(network: Network, config: LearnerConfig, search: SearchFunction | None = None) -> Update:
    """Returns `update(state, batch) -> (state, metrics, priorities)`.

    `metrics` are scalars by name, `priorities` is `[B]`; both stay on the device until they are read. All calls of the
    returned function share the compiled step.

    Args:
      network: the network to train.
      config: hyper-parameters.
      search: the search of reanalyse; needed if and only if `reanalyse_fraction` is positive.

    Raises:
      ValueError: a search is missing or superfluous.
    """
    if (search is not None) != (config.reanalyse_fraction > 0.0):
        raise ValueError("make_update: a search function and a positive reanalyse_fraction go together")
    optimiser = make_optimiser(config)
    schedule = learning_rate_schedule(config)

    @jax.jit
    def step(state: TrainingState, batch: TrainingBatch) -> tuple[TrainingState, Metrics, jax.Array]:
        next_key, action_key, search_key, hide_key = jax.random.split(state.key, 4)
        if search is not None:
            batch = reanalyse(search, state.target_params, search_key, batch, config)
        targets = make_targets(network, state.target_params, batch, config)
        gradients, output = jax.grad(unrolled_loss, has_aux=True)(
            state.params, network, hide(batch, hide_key, config.observation_dropout), targets, action_key, config
        )
        updates, opt_state = optimiser.update(gradients, state.opt_state, state.params)
        params = optax.apply_updates(state.params, updates)
        count = state.step + 1
        next_state = TrainingState(
            params=params,
            target_params=_move_target(params, state.target_params, count, config),
            opt_state=opt_state,
            step=count,
            key=next_key,
        )
        metrics = {
            **output.metrics,
            "gradient_norm": _norm(gradients),
            "parameter_norm": _norm(params),
            "learning_rate": jnp.asarray(schedule(state.step)),
        }
        return next_state, metrics, output.priorities

    def update(state: TrainingState, batch: Batch) -> tuple[TrainingState, Metrics, jax.Array]:
        if batch.action.shape[1] != config.segment_length:
            raise ValueError(f"segments have {batch.action.shape[1]} steps, the learner needs {config.segment_length}")
        return step(state, training_batch(batch, config.importance_exponent))

    return update


def hide(batch: TrainingBatch, key: jax.Array, share: float) -> TrainingBatch:
    """Returns the batch with a share of the numbers in its observations set to zero, drawn anew for each update.

    The others are scaled up, so that a network that sees everything sees numbers of the same size.
    """
    if not share:
        return batch
    seen = jax.random.bernoulli(key, 1.0 - share, batch.observation.shape)
    return batch._replace(observation=batch.observation * seen / (1.0 - share))


def _move_target(params: Params, target_params: Params, count: jax.Array, config: LearnerConfig) -> Params:
    """Returns the target parameters after update number `count`."""
    rate = jnp.where(count % config.target_period == 0, config.target_rate, 0.0)
    # Two products instead of old + rate * difference: a rate of one copies the parameters exactly.
    return jax.tree.map(lambda new, old: rate * new + (1.0 - rate) * old, params, target_params)


def _norm(tree: Params) -> jax.Array:
    """Returns the Euclidean norm of all leaves together. Optax renamed its own between the supported versions."""
    return jnp.sqrt(sum((jnp.sum(leaf**2) for leaf in jax.tree.leaves(tree)), jnp.zeros(())))
