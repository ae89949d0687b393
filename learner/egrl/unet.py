"""A graph U-Net (Gao and Ji, arXiv 1905.05178) over the tensors of one program.

Shapes: `N` nodes, including padding; `F` features; `W` width; `P` depth, the number of halvings of the graph. All
modules take one graph; `jax.vmap` batches parameters.
"""

from collections.abc import Sequence
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray


class Graph(NamedTuple):
    """A program's tensors, padded so that programs of about the same size share compiled code.

    Attributes:
      features: `[N, F]` float32; 0 for padding.
      reach: `[P + 1, N, N]` float32, 1 where a node is within 1, 2, 4, ... edges of another, or is the same.
      real: `[N]` float32, 1 for a node and 0 for padding.
    """

    features: jax.Array
    reach: jax.Array
    real: jax.Array


def padded_size(nodes: int) -> int:
    """Returns the number of nodes after padding: the next of 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, ..."""
    step = 4
    while 8 * step < nodes:
        step *= 2
    return max(16, -(-nodes // step) * step)


def make_graph(features: NDArray[np.float32], edges: NDArray[np.bool_], depth: int) -> Graph:
    """Returns a padded graph.

    Args:
      features: `[K, F]` of the real nodes.
      edges: `[K, K]`, symmetric.
      depth: `P`.
    """
    nodes, size = len(features), padded_size(len(features))
    near = np.eye(size, dtype=bool)
    near[:nodes, :nodes] |= edges
    reach = [near]
    for _ in range(depth):
        reach.append((reach[-1].astype(np.float32) @ reach[-1].astype(np.float32)) > 0)
    rows = np.zeros((size, features.shape[1]), np.float32)
    rows[:nodes] = features
    real = (np.arange(size) < nodes).astype(np.float32)
    return Graph(jnp.asarray(rows), jnp.asarray(np.stack(reach), jnp.float32), jnp.asarray(real))


class GraphConvolution(nn.Module):
    """A layer over each node and the mean of its neighbours: `[N, W], [N, N] -> [N, W]`."""

    width: int

    @nn.compact
    def __call__(self, nodes: jax.Array, near: jax.Array) -> jax.Array:
        shared = near @ nodes / jnp.maximum(near.sum(-1, keepdims=True), 1.0)
        return nn.relu(nn.Dense(self.width, name="dense")(jnp.concatenate([nodes, shared], axis=-1)))


class GraphUNet(nn.Module):
    """Maps nodes `[N, F]` to nodes `[N, W]`: pools the half with the highest learned scores, `P` times, and unpools.

    A coarser level joins nodes within twice as many edges, as the nodes between them may be gone.
    """

    width: int
    depth: int

    @nn.compact
    def __call__(self, nodes: jax.Array, graph: Graph) -> jax.Array:
        nodes = nn.relu(nn.Dense(self.width, name="input")(nodes)) * graph.real[:, None]
        real, places = graph.real, jnp.arange(len(graph.real))
        levels: list[tuple[jax.Array, jax.Array, jax.Array]] = []
        for level in range(self.depth + 1):
            near = graph.reach[level][places][:, places] * real[None, :]
            nodes = GraphConvolution(self.width, name=f"down_{level}")(nodes, near) * real[:, None]
            if level == self.depth:
                break
            score = jnp.tanh(nn.Dense(1, name=f"score_{level}")(nodes)[:, 0])
            _, kept = jax.lax.top_k(jnp.where(real > 0, score, -2.0), max(1, len(places) // 2))
            levels.append((nodes, near, kept))
            nodes, real, places = nodes[kept] * score[kept][:, None], real[kept], places[kept]
        return self._back(nodes, levels, graph.real)

    def _back(
        self, nodes: jax.Array, levels: Sequence[tuple[jax.Array, jax.Array, jax.Array]], real: jax.Array
    ) -> jax.Array:
        """Unpools nodes level by level, adding those skipped on the way down."""
        for level in reversed(range(len(levels))):
            skipped, near, kept = levels[level]
            nodes = GraphConvolution(self.width, name=f"up_{level}")(skipped.at[kept].add(nodes), near)
        return nodes * real[:, None]
