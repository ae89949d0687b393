"""Knapsacks: stays are taken by benefit over cost for as long as they fit side by side."""

import numpy as np
from numpy.typing import NDArray

from ...env.compiled.kernel import kernel, vector
from ...env.game.tables import Tables
from ...env.residency.stays import Stays

# Powers of bytes and of seconds by which benefits are divided: (1, 0) is per byte, (1, 1) per byte-second.
POWERS = ((1.0, 1.0), (1.0, 0.0), (1.0, 0.5), (0.5, 0.5), (0.5, 0.0), (0.0, 0.0))


def by_density(stays: Stays, bytes_power: float, seconds_power: float) -> NDArray[np.int64]:
    """Returns the stays with a benefit, by benefit over cost, the best first."""
    cost = stays.size.astype(np.float64) ** bytes_power * np.maximum(stays.seconds, 1e-12) ** seconds_power
    order = np.argsort(-stays.benefit_s / cost, kind="stable")
    return order[stays.benefit_s[order] > 0.0]


def free_bytes(tables: Tables, reserved: NDArray[np.int64]) -> NDArray[np.float64]:
    """Returns `[T]` the bytes of fast memory that each instruction leaves, of which it reserves `reserved[T]`."""
    return (int(tables.limits.fast_bytes) - reserved).astype(np.float64)


def take(order: NDArray[np.int64], stays: Stays, free: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Returns `[S]` whether each stay is taken: in `order`, if it fits beside those before it in `free[T]` bytes."""
    chosen = np.zeros(len(stays.size), np.int8)
    _take(order.astype(np.int64), stays.first, stays.last, stays.size, free.copy(), chosen)
    return chosen.view(np.bool_)


@kernel(vector(np.int64), vector(np.int64), vector(np.int64), vector(np.int64), vector(np.float64), vector(np.int8))
def _take(
    order: np.ndarray, first: np.ndarray, last: np.ndarray, size: np.ndarray, left: np.ndarray, chosen: np.ndarray
) -> None:
    for k in range(len(order)):
        stay = order[k]
        fits = True
        for t in range(first[stay], last[stay] + 1):
            if left[t] < size[stay]:
                fits = False
                break
        if fits:
            chosen[stay] = 1
            for t in range(first[stay], last[stay] + 1):
                left[t] -= size[stay]
