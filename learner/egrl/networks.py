"""Policy and critic of evolutionary graph reinforcement learning, as functions of flat rows of parameters.

Evolution cuts and joins parameters as rows of numbers; so they are rows everywhere.

Shapes: `N` nodes, `H` homes a tensor may have, `D` parameters of a policy, `E` of a critic.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from .config import GraphNetworkConfig
from .unet import Graph, GraphUNet


class PolicyModule(nn.Module):
    """A graph to logits `[N, H]`."""

    config: GraphNetworkConfig

    @nn.compact
    def __call__(self, graph: Graph) -> jax.Array:
        nodes = GraphUNet(self.config.width, self.config.depth, name="trunk")(graph.features, graph)
        return nn.Dense(self.config.homes, name="logits")(nodes)


class CriticModule(nn.Module):
    """A graph and a mapping `[N, H]`, one-hot or relaxed, to a value `[]`: a mean over the nodes."""

    config: GraphNetworkConfig

    @nn.compact
    def __call__(self, graph: Graph, mapping: jax.Array) -> jax.Array:
        inputs = jnp.concatenate([graph.features, mapping * graph.real[:, None]], axis=-1)
        nodes = GraphUNet(self.config.width, self.config.depth, name="trunk")(inputs, graph)
        values = nn.Dense(1, name="value")(nodes)[:, 0]
        return jnp.sum(values * graph.real) / jnp.maximum(jnp.sum(graph.real), 1.0)


class FlatModule:
    """A module whose parameters are one row of numbers, whatever the size of the graph it is applied to."""

    def __init__(self, module: nn.Module, *example: Any) -> None:
        """Learns the shapes of the parameters from the arguments of a call; nothing is computed."""
        self._module = module
        shapes = jax.eval_shape(module.init, jax.random.PRNGKey(0), *example)["params"]
        self._leaves, self._tree = jax.tree.flatten(shapes)
        self._ends = np.cumsum([0, *(leaf.size for leaf in self._leaves)]).tolist()
        self.size: int = self._ends[-1]

    def init(self, seed: int, count: int) -> NDArray[np.float32]:
        """Returns `[count, size]` fresh parameters: normal, scaled by the fan-in, biases 0.

        Drawn by NumPy: flax's own would have to be compiled for seconds.
        """
        chance = np.random.default_rng(seed)
        rows = np.zeros((count, self.size), np.float32)
        for (begin, end), leaf in zip(pairwise(self._ends), self._leaves, strict=True):
            if len(leaf.shape) > 1:
                rows[:, begin:end] = chance.standard_normal((count, end - begin)) / np.sqrt(leaf.shape[0])
        return rows

    def __call__(self, row: jax.Array, *inputs: Any) -> Any:
        """Applies the module with the parameters of a row `[size]`."""
        pieces = zip(pairwise(self._ends), self._leaves, strict=True)
        leaves = [row[begin:end].reshape(leaf.shape) for (begin, end), leaf in pieces]
        return self._module.apply({"params": jax.tree.unflatten(self._tree, leaves)}, *inputs)


@dataclass(frozen=True)
class GraphNetwork:
    """Policy and critic. Hashable, so that what is compiled for it can be kept.

    `policy(row, graph)` gives logits `[N, H]`, `critic(row, graph, mapping)` a value `[]`.
    """

    config: GraphNetworkConfig

    @cached_property
    def policy(self) -> FlatModule:
        """Rows of `D` numbers."""
        return FlatModule(PolicyModule(self.config), self._example)

    @cached_property
    def critic(self) -> FlatModule:
        """Rows of `E` numbers."""
        mapping = jnp.zeros((len(self._example.real), self.config.homes))
        return FlatModule(CriticModule(self.config), self._example, mapping)

    @cached_property
    def posteriors(self) -> Any:
        """Compiled: policies `[G, D]` and a graph to their probabilities `[G, N, H]`."""
        return jax.jit(jax.vmap(lambda row, graph: jax.nn.softmax(self.policy(row, graph)), in_axes=(0, None)))

    @property
    def _example(self) -> Graph:
        size, depth = 2**self.config.depth, self.config.depth
        features = jnp.zeros((size, self.config.features))
        return Graph(features, jnp.zeros((depth + 1, size, size)), jnp.ones(size))
