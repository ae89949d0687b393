"""The learner that a configuration asks for: reanalyse searches again, as the actors search."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from mallocmuzero.actors.search.search import SearchConfig
from mallocmuzero.env.game.moves import NUM_MOVES
from mallocmuzero.env.game.observation import GRID, OBSERVATION_SIZE
from mallocmuzero.launch.config.config import TrainConfig
from mallocmuzero.launch.session.builders import initial_state, make_training_update
from mallocmuzero.learner.config import LearnerConfig
from mallocmuzero.learner.networks.network import Network, NetworkConfig
from mallocmuzero.replay.segment import Batch

LEARNER = LearnerConfig(batch_size=4, unroll_steps=1, td_steps=1, learning_rate=3e-3, warmup_steps=0)
CONFIG = TrainConfig(
    workloads=("tiny",),
    network=NetworkConfig(
        observation_size=OBSERVATION_SIZE, num_actions=NUM_MOVES, grid=GRID, width=16, projection_width=8
    ),
    learner=LEARNER,
    search=SearchConfig(simulations=2),
    segment_period=2,
)


def _batch() -> Batch:
    generator = np.random.default_rng(0)
    shape = (4, LEARNER.segment_length)
    legal = np.ones((*shape, NUM_MOVES), np.bool_)
    legal[..., 1] = False
    return Batch(
        observation=generator.random((*shape, OBSERVATION_SIZE)).astype(np.float32),
        legal=legal,
        action=np.zeros(shape, np.int32),
        reward=np.zeros(shape, np.float32),
        discount=np.ones(shape, np.float32),
        policy=np.tile(np.array([1.0, 0.0, 0.0], np.float32), (*shape, 1)),
        value=np.zeros(shape, np.float32),
        outcome=np.full((*shape, NUM_MOVES), np.nan, np.float32),
        valid=np.ones(shape, np.bool_),
        key=np.arange(4, dtype=np.uint64),
        probability=np.full(4, 0.25),
        table_size=4,
    )


@pytest.mark.parametrize("fraction", [0.0, 1.0])
def test_reanalyse_learns_from_the_search_and_not_from_what_was_stored(fraction: float) -> None:
    config = replace(CONFIG, learner=replace(LEARNER, reanalyse_fraction=fraction))
    network = Network(config.network)
    update, state = make_training_update(config, network), initial_state(config, network)
    metrics = {}
    for _ in range(3):
        state, metrics, _ = update(state, _batch())
    # What was stored knows one move only; the search of a fresh network holds the two legal ones for alike.
    entropy = float(jax.device_get(metrics["target_entropy"]))
    if fraction:
        assert 0.5 < entropy <= np.log(2) + 1e-3
    else:
        assert entropy == pytest.approx(0.0, abs=1e-6)
