"""Compiles the code of training and evaluation before their clocks start: kernels, search and update.

What JAX compiles here is kept on disk (`launch/start/compiled_networks.py`).
"""

import jax
import jax.numpy as jnp
import numpy as np

from ...actors.search.search import SearchConfig, greedy, search
from ...actors.self_play.config import ACCESS, RESIDENCY
from ...learner.networks.network import Network, Params
from ...learner.state import TrainingState
from ...learner.update import Update
from ...replay.segment import Batch
from ..config.config import TrainConfig
from ..start import needs
from ..start.compiled_networks import keeping_networks
from .builders import evaluation_search, initial_state, make_training_update

# The second update starts from the first one's result, for which JAX compiles separately.
_UPDATES = 2


def training_kernels(config: TrainConfig) -> tuple[str, ...]:
    """Returns the kernels of a training run."""
    orders = needs.ORDERS if config.actor.orders else ()
    if config.actor.decisions == RESIDENCY:
        return (*needs.RESIDENCY, *orders)
    return (*needs.TRAIN, *orders, *(needs.ANNEAL_LINES if config.actor.annealing.accesses else ()))


def evaluation_kernels(config: TrainConfig) -> tuple[str, ...]:
    """Returns the kernels of the evaluation of a run."""
    return needs.EVALUATE if config.actor.decisions == ACCESS else training_kernels(config)


@keeping_networks()
def compile_play(config: TrainConfig) -> None:
    """Compiles the actors' search."""
    _search(config, config.actor.games, config.search)


@keeping_networks()
def compile_evaluation(config: TrainConfig, programs: int, simulations: int) -> None:
    """Compiles an evaluation of this many programs: the policy alone, and with search if `simulations` is above 0."""
    if config.actor.decisions == RESIDENCY:
        programs = 1  # they are played one after another
    network, params, observations, legal = _inputs(config, programs)
    if config.actor.decisions == ACCESS:
        jax.block_until_ready(greedy(network, params, observations, legal))
    found = evaluation_search(config, simulations)
    if found is not None:
        _search(config, programs, found.quiet())


@keeping_networks()
def compile_update(config: TrainConfig) -> Update:
    """Returns the learner's update, compiled."""
    network = Network(config.network)
    update = make_training_update(config, network)
    run_update(config, update, initial_state(config, network))
    return update


@keeping_networks()
def run_update(config: TrainConfig, update: Update, state: TrainingState) -> None:
    """Compiles an update by running it on a batch of absorbing steps; drops the results."""
    for _ in range(_UPDATES):
        state, _, priorities = update(state, _batch(config))
    jax.block_until_ready(priorities)


@keeping_networks()
def compile_topology_process(config: TrainConfig) -> Update:
    """Compiles all that a run in one process calls; returns its update."""
    compile_play(config)
    if config.schedule.evaluate_period:
        compile_evaluation(
            config, min(len(config.workloads), config.schedule.evaluate_most), config.schedule.evaluate_simulations
        )
    return compile_update(config)


def _search(config: TrainConfig, rows: int, settings: SearchConfig) -> None:
    network, params, observations, legal = _inputs(config, rows)
    key = jax.random.fold_in(jax.random.key(0), 0)
    jax.block_until_ready(search(network, params, key, observations, legal, settings).action)


def _inputs(config: TrainConfig, rows: int) -> tuple[Network, Params, np.ndarray, np.ndarray]:
    """Returns a network with parameters of 0, and a batch of positions."""
    network = Network(config.network)
    shapes = jax.eval_shape(network.init, jax.random.key(0))
    params = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    spec = config.segment_spec
    return (
        network,
        params,
        np.zeros((rows, spec.observation_size), np.float32),
        np.ones((rows, spec.num_actions), np.bool_),
    )


def _batch(config: TrainConfig) -> Batch:
    """Returns a batch of absorbing steps."""
    size, spec = config.learner.batch_size, config.segment_spec

    def stacked(row: np.ndarray) -> np.ndarray:
        return np.broadcast_to(row, (size, spec.length, *row.shape)).copy()

    return Batch(
        **{name: stacked(row) for name, row in spec.absorbing.items()},
        key=np.arange(size, dtype=np.uint64),
        probability=np.full(size, 1.0 / size),
        table_size=size,
    )
