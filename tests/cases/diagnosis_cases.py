"""Agents for the tests of the diagnosis: an untrained network, and one that knows a line of play by heart."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mallocmuzero.actors.diagnosis.agent import Agent
from mallocmuzero.actors.diagnosis.trace import PRODUCTION, Trace, follow_mapping, record_moves
from mallocmuzero.actors.search.search import SearchConfig
from mallocmuzero.actors.self_play.config import ActorConfig
from mallocmuzero.actors.self_play.programs import ProgramContext
from mallocmuzero.env.game.moves import NUM_MOVES
from mallocmuzero.env.game.observation import GRID, OBSERVATION_SIZE
from mallocmuzero.env.workloads import load
from mallocmuzero.learner.checkpoints.checkpoint import Checkpoints
from mallocmuzero.learner.config import LearnerConfig
from mallocmuzero.learner.networks.network import Network, NetworkConfig, NetworkOutput
from mallocmuzero.learner.state import init_state
from mallocmuzero.learner.update import make_optimiser
from mallocmuzero.solvers.common.line import LineOfPlay

CONFIG = NetworkConfig(OBSERVATION_SIZE, NUM_MOVES, GRID, grid_channels=(4,), width=16, projection_width=16)
NETWORK = Network(CONFIG)
DISCOUNT = SearchConfig().discount


def scrambled(seed: int = 0) -> Any:
    """Parameters of a network that has opinions: a fresh one's heads say nothing."""
    leaves, structure = jax.tree.flatten(NETWORK.init(jax.random.key(seed)))
    keys = jax.random.split(jax.random.key(seed + 1), len(leaves))
    return structure.unflatten(
        [leaf + 0.3 * jax.random.normal(key, leaf.shape) for leaf, key in zip(leaves, keys, strict=True)]
    )


def agent(actor: ActorConfig | None = None) -> Agent:
    """An agent with opinions."""
    return Agent("scrambled", NETWORK, scrambled(), 0, actor or ActorConfig(), SearchConfig())


def save_policy(folder: Path, config: NetworkConfig = CONFIG) -> Path:
    """Writes a learner's checkpoint; returns its folder."""
    network = Network(config)
    state = init_state(network, make_optimiser(LearnerConfig()), jax.random.PRNGKey(0))
    return Checkpoints(folder, network).save(state)


def line_of_production(name: str, objective: str | None = None) -> tuple[ProgramContext, LineOfPlay, Trace]:
    """A program, the line that follows its production mapping, and the record of that."""
    program = load(name)
    assert program.production is not None
    played = ProgramContext(ActorConfig(objective=objective).game(program))
    line = follow_mapping(played, program.production)
    return played, line, record_moves(PRODUCTION, played, line.actions.tolist(), DISCOUNT, played.first)


class ByHeart:
    """Knows a line: latent states are places on it. `reward_off` and `value_off` are its errors."""

    config = CONFIG

    def __init__(self, trace: Trace, reward_off: float = 0.0, value_off: float = 0.0) -> None:
        self._observation = jnp.asarray(trace.observation)
        self._action = jnp.asarray([*trace.action, 0])
        self._reward = jnp.asarray([*trace.reward, 0.0], jnp.float32) + reward_off
        self._value = jnp.asarray([*trace.value, 0.0], jnp.float32) + value_off
        logits = np.where(trace.legal, np.random.default_rng(0).normal(size=trace.legal.shape), -1e9)
        self._logits = jnp.asarray(np.append(logits, [[0.0, 0.0, 0.0]], axis=0), jnp.float32)

    def initial_inference(self, params: Any, observation: jax.Array) -> NetworkOutput:
        del params
        distance = jnp.sum((observation[:, None] - self._observation[None]) ** 2, axis=-1)
        place = jnp.argmin(distance, axis=-1)
        return self._at(place, jnp.zeros(len(place)))

    def recurrent_inference(self, params: Any, latent: jax.Array, action: jax.Array) -> NetworkOutput:
        del params
        place = jnp.argmax(latent, axis=-1)
        # It knows nothing of moves that the line does not make.
        reward = jnp.where(
            (action == self._action[place]) | (place == len(self._value) - 1), self._reward[place], jnp.nan
        )
        return self._at(jnp.minimum(place + 1, len(self._value) - 1), reward)

    def project(self, params: Any, latent: jax.Array, online: bool) -> jax.Array:
        del params, online
        return latent

    def _at(self, place: jax.Array, reward: jax.Array) -> NetworkOutput:
        latent = jax.nn.one_hot(place, len(self._value))
        return NetworkOutput(latent, reward, self._value[place], self._logits[place])
