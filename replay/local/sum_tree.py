"""A tree of sums that draws an index with probability proportional to its weight, in O(log n).

The caller brings the random numbers: a resumed run repeats bit for bit only if their generator is stored with it.
"""

import numpy as np


class SumTree:
    """A complete binary tree over `capacity` weights; every node holds the sum of its two children.

    Sums are recomputed, never incremented, so they depend on the weights alone and a restored tree is the same tree.
    """

    def __init__(self, capacity: int) -> None:
        self._first = 1 << max(0, capacity - 1).bit_length()
        # Node 1 is the root, 2n and 2n + 1 are the children of n, leaves start at `_first`.
        self._sums = np.zeros(2 * self._first)

    @property
    def total(self) -> float:
        """The sum of all weights."""
        return float(self._sums[1])

    def __getitem__(self, indices: np.ndarray) -> np.ndarray:
        return self._sums[self._first + indices]

    def set(self, indices: np.ndarray, weights: np.ndarray) -> None:
        """Sets weights `[N]` at `indices` `[N]`; of equal indices the last counts."""
        sums = self._sums
        nodes = self._first + indices
        sums[nodes] = weights
        while len(nodes) > 1 and nodes[0] > 1:
            nodes = np.unique(nodes >> 1)
            sums[nodes] = sums[2 * nodes] + sums[2 * nodes + 1]
        # A single node, as of a single insert, needs no array operations on its way up.
        node = int(nodes[0]) >> 1 if len(nodes) else 0
        while node:
            sums[node] = sums[2 * node] + sums[2 * node + 1]
            node >>= 1

    def find(self, targets: np.ndarray) -> np.ndarray:
        """Returns `[N]`, for each target in `[0, total)` the index whose interval of the running sum contains it."""
        sums = self._sums
        targets = np.array(targets, np.float64)
        nodes = np.ones(len(targets), np.int64)
        while nodes.size and nodes[0] < self._first:
            left = sums[2 * nodes]
            # The second condition keeps a rounded target from ending at a weight of 0.
            right = (targets >= left) & (sums[2 * nodes + 1] > 0)
            targets -= np.where(right, left, 0)
            nodes = 2 * nodes + right
        return nodes - self._first
