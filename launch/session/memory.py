"""Refuses a run that the memory of this machine cannot hold, before anything is compiled or written."""

import math
import os

import jax

from ...env.errors import UserError
from ...learner.networks.network import Network
from ..config.config import PROCESS, TrainConfig

# Of each parameter: itself, the target network's, the gradient and the optimiser's two moments.
_COPIES = 5
# Numbers that the search keeps of each move of a node: child, prior, reward, discount, value, visits.
_PER_MOVE = 6
_FLOAT, _INT = 4, 8
_GB = 10**9


def check_memory(config: TrainConfig) -> None:
    """Compares the largest arrays of a run, all of them full, with the memory of this machine.

    They are less than the run takes, so only what cannot be is refused. The parts of the topology `ray` may be on other
    machines, and are not counted.

    Raises:
      UserError: they are larger.
    """
    if config.topology != PROCESS:
        return
    parts = needed(config)
    total, there = sum(parts.values()), memory()
    if total > there:
        largest = max(parts, key=lambda name: parts[name])
        raise UserError(
            f"the run would take {total / _GB:,.0f} GB of memory or more, and this machine has {there / _GB:,.0f}: "
            f"{parts[largest] / _GB:,.0f} GB are for {largest}; lower that"
        )


def needed(config: TrainConfig) -> dict[str, int]:
    """Returns the bytes of the largest arrays of a run, by the settings that they depend on."""
    spec, learner, actor = config.segment_spec, config.learner, config.actor
    row = sum(math.prod(shape) * dtype.itemsize for shape, dtype in spec.fields.values())
    parameters = jax.tree.leaves(jax.eval_shape(Network(config.network).init, jax.random.key(0)))
    capacity, simulations = config.replay.capacity, config.search.simulations
    node = _FLOAT * (config.network.latent_size + _PER_MOVE * config.network.num_actions)
    return {
        f"network.width = {config.network.width} and the blocks": _COPIES
        * sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in parameters),
        f"replay.capacity = {capacity}": capacity * (spec.period * row + spec.length * _INT),
        f"actor.games = {actor.games} with search.simulations = {simulations}": actor.games * (simulations + 1) * node,
        f"learner.batch_size = {learner.batch_size} with learner.unroll_steps = {learner.unroll_steps} and "
        f"learner.td_steps = {learner.td_steps}": learner.batch_size * spec.length * row,
    }


def memory() -> int:
    """Returns the bytes of memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
