"""Policy and critic of evolutionary graph reinforcement learning, as functions of flat rows of parameters.

Evolution crosses parameters as rows of numbers; therefore they are rows everywhere.

Shapes: `N` nodes, `H` homes a tensor may have, `D` parameters.
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


class HomesModule(nn.Module):
    """Maps a graph to a number per node and home, `[N, H]`: the logits of a policy, or the values of a critic."""

    config: GraphNetworkConfig

    @nn.compact
    def __call__(self, graph: Graph) -> jax.Array:
        nodes = GraphUNet(self.config.width, self.config.depth, name="trunk")(graph.features, graph)
        return nn.Dense(self.config.homes, name="homes")(nodes)


class FlatModule:
    """A module whose parameters are one row of numbers, the same for graphs of every size."""

    def __init__(self, module: nn.Module, *example: Any) -> None:
        """Derives the shapes of the parameters from the arguments of a call, without computing it."""
        self._module = module
        shapes = jax.eval_shape(module.init, jax.random.PRNGKey(0), *example)["params"]
        self._leaves, self._tree = jax.tree.flatten(shapes)
        self._ends = np.cumsum([0, *(leaf.size for leaf in self._leaves)]).tolist()
        self.size: int = self._ends[-1]

    def init(self, seed: int, count: int) -> NDArray[np.float32]:
        """Returns `[count, size]` fresh parameters: normal, scaled by the fan-in, with biases of 0.

        NumPy draws them, as flax's initialisers take seconds to compile.
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
    """The network of both policies and critics. Hashable, so that compiled functions of it can be cached."""

    config: GraphNetworkConfig

    @cached_property
    def homes(self) -> FlatModule:
        """The function `homes(row, graph)` from parameters `[D]` and a graph to logits, or values, `[N, H]`."""
        size, depth = 2**self.config.depth, self.config.depth
        features = jnp.zeros((size, self.config.features))
        example = Graph(features, jnp.zeros((depth + 1, size, size)), jnp.ones(size))
        return FlatModule(HomesModule(self.config), example)

    @cached_property
    def posteriors(self) -> Any:
        """The compiled function from policies `[G, D]` and a graph to their probabilities `[G, N, H]`."""
        return jax.jit(jax.vmap(lambda row, graph: jax.nn.softmax(self.homes(row, graph)), in_axes=(0, None)))
