"""Rounding of prices: the stays of a fractional solution, taken as a knapsack."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ...env.game.moves import COPY, NO_COPY
from ...env.game.tables import Tables
from ...env.program.program import OPERAND
from ...env.residency.stays import Stays, stays_of
from .prices import Prices

# Keys by which stays are taken, the largest first, from the stays and the mean share `[S]` of paths that make them.
ORDERS: dict[str, Callable[[Stays, NDArray[np.float64]], NDArray[np.float64]]] = {
    "benefit": lambda stays, share: stays.benefit_s,
    "likely benefit": lambda stays, share: stays.benefit_s * share**3,
    "benefit per root byte": lambda stays, share: stays.benefit_s / np.sqrt(stays.size),
    "density": lambda stays, share: stays.benefit_s * share**2 / stays.size / np.sqrt(np.maximum(stays.seconds, 1e-12)),
    "share": lambda stays, share: share + 1e-3 * stays.benefit_s / max(float(stays.benefit_s.max(initial=0.0)), 1e-30),
}


def stays_of_prices(tables: Tables, prices: Prices, least: float) -> tuple[Stays, NDArray[np.float64]]:
    """Returns the stays of accesses that are fast in more than a share `least` of the paths, and `[S]` the mean share.

    A stay ends before an access of its buffer that is not among them.
    """
    fast = prices.fast > least
    owner, kind = tables.access["buffer"], tables.access["kind"]
    following = tables.access["next"]
    order = np.argsort(owner, kind="stable")
    order = order[fast[order]]
    chained = np.zeros(len(owner), bool)  # the access before, of the same buffer, is fast too
    chained[following[fast & (following >= 0)]] = True
    of_access = np.full(len(owner), -1, np.int64)
    of_access[order] = np.cumsum(~chained[order]) - 1
    written_back = prices.written_back > 0.5 * prices.fast
    # What is read from HBM later must be there.
    read = (following >= 0) & ~fast[following]
    preference = np.where((kind == OPERAND) | written_back | read, COPY, NO_COPY).astype(np.int8)
    stays = stays_of(tables, of_access, preference)
    count = len(stays.size)
    members = of_access[order]
    return stays, np.bincount(members, prices.fast[order], minlength=count) / np.bincount(members, minlength=count)


def order_by(key: str, stays: Stays, share: NDArray[np.float64]) -> NDArray[np.int64]:
    """Returns the stays by a key of `ORDERS`, the largest first; those without a benefit are left out."""
    order = np.argsort(-ORDERS[key](stays, share), kind="stable")
    return order[stays.benefit_s[order] > 0.0]
