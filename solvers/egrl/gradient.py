"""The gradient learner as the acting half sees it: arrays of NumPy in and out. JAX is loaded with this file."""

from functools import cache

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ...learner.egrl.config import GraphNetworkConfig, SacConfig
from ...learner.egrl.networks import GraphNetwork
from ...learner.egrl.sac import Metrics, Played, init_sac, make_update
from ...learner.egrl.unet import make_graph
from .play import ReplayBuffer
from .population import Genes
from .tensors import NUM_FEATURES, NUM_HOMES, Tensors


class GradientLearner:
    """A soft actor-critic, and the networks of its kind that evolution works on."""

    def __init__(
        self, tensors: Tensors, config: SacConfig, width: int, depth: int, chance: np.random.Generator
    ) -> None:
        """Begins with fresh networks for a program's tensors."""
        self._network = _network(width, depth)
        self._graph = make_graph(tensors.features, tensors.edges, depth)
        self._nodes, self._batch, self._chance = tensors.count, config.batch, chance
        self._state = init_sac(self._network, config, int(chance.integers(2**31)))
        self._update = make_update(self._network, config)

    def fresh(self, count: int) -> NDArray[np.float32]:
        """Returns `[count, D]` newly initialised policies."""
        return self._network.homes.init(int(self._chance.integers(2**31)), count)

    def posteriors(self, networks: NDArray[np.float32]) -> Genes:
        """Returns the probabilities `[G, K, H]` of policies `[G, D]`."""
        return np.asarray(self._network.posteriors(networks, self._graph), np.float64)[:, : self._nodes]

    @property
    def policy(self) -> NDArray[np.float32]:
        """The policy that follows the gradient, `[D]`."""
        return np.asarray(self._state.actor)

    def learn(self, replay: ReplayBuffer, updates: int) -> dict[str, float]:
        """Makes updates on mappings drawn from the buffer; returns what the last was like."""
        homes = np.zeros((self._batch, len(self._graph.real)), np.int32)
        metrics: Metrics = {}
        for _ in range(updates):
            homes[:, : self._nodes], reward = replay.sample(self._batch, self._chance)
            self._state, metrics = self._update(
                self._state, self._graph, Played(jnp.asarray(homes.copy()), jnp.asarray(reward))
            )
        return {name: float(value) for name, value in metrics.items()}


@cache
def _network(width: int, depth: int) -> GraphNetwork:
    """One for all programs, so that those padded to the same size share what is compiled."""
    return GraphNetwork(GraphNetworkConfig(NUM_FEATURES, NUM_HOMES, width, depth))
