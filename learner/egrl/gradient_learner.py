"""The gradient learner of EGRL: parameters, optimisers and updates behind arrays of NumPy."""

from collections.abc import Iterable
from functools import cache

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from .config import GraphNetworkConfig, SacConfig
from .networks import GraphNetwork
from .sac import Metrics, Played, init_sac, make_update
from .unet import make_graph

# Homes `[B, K]` of a batch of mappings, and their rewards `[B]`.
Batch = tuple[NDArray[np.int32], NDArray[np.float32]]


class GradientLearner:
    """A soft actor-critic on the graph of one program, and the networks of its kind that evolution works on.

    Shapes: `K` tensors of the program, `H` homes, `G` policies, `D` parameters of a policy, `B` mappings of a batch.
    """

    def __init__(
        self,
        features: NDArray[np.float32],
        edges: NDArray[np.bool_],
        *,
        network: GraphNetworkConfig,
        sac: SacConfig,
        seed: int,
    ) -> None:
        """Begins with fresh networks.

        Args:
          features: `[K, F]` of the tensors.
          edges: `[K, K]`, symmetric: which tensors are neighbours.
          network: sizes of policy and critics.
          sac: hyper-parameters of the updates.
          seed: of the first parameters.
        """
        self._network = _network(network)
        self._graph = make_graph(features, edges, network.depth)
        self._nodes = len(features)
        self._state = init_sac(self._network, sac, seed)
        self._update = make_update(self._network, sac)

    def fresh(self, count: int, seed: int) -> NDArray[np.float32]:
        """Returns `[count, D]` newly initialised policies."""
        return self._network.homes.init(seed, count)

    def posteriors(self, policies: NDArray[np.float32]) -> NDArray[np.float64]:
        """Returns the probabilities `[G, K, H]` of policies `[G, D]`."""
        return np.asarray(self._network.posteriors(policies, self._graph), np.float64)[:, : self._nodes]

    @property
    def policy(self) -> NDArray[np.float32]:
        """The policy that follows the gradient, `[D]`."""
        return np.asarray(self._state.actor)

    def learn(self, batches: Iterable[Batch]) -> dict[str, float]:
        """Makes one update per batch; returns the metrics of the last one, by name."""
        metrics: Metrics = {}
        for homes, reward in batches:
            padded = np.zeros((len(homes), len(self._graph.real)), np.int32)
            padded[:, : self._nodes] = homes
            played = Played(jnp.asarray(padded), jnp.asarray(reward))
            self._state, metrics = self._update(self._state, self._graph, played)
        return {name: float(value) for name, value in metrics.items()}


@cache
def _network(config: GraphNetworkConfig) -> GraphNetwork:
    """Returns one network for all programs: those padded to the same size share compiled code."""
    return GraphNetwork(config)
