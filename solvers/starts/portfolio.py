"""A portfolio of rules that choose stays: few plans, one of which is good.

Its rules were picked from 116, greedily, each for what it adds to those before it in the geometric mean over train and
validation programs with all, half and a quarter of their fast memory (`python -m benchmarks.starts.portfolio`).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...env.game.plan import Plan
from ...env.game.tables import Tables
from ...env.residency.stays import CUTS, Stays, make_stays, plan_of_stays
from .knapsack import POWERS, by_density, free_bytes, take
from .prices import Prices, find_prices
from .rounding import order_by, stays_of_prices


class Knapsack(NamedTuple):
    """Stays by density.

    Attributes:
      cut: of stays (`make_stays`).
      powers: of bytes and seconds (`by_density`).
      filled: the share of fast memory that it fills; offsets waste the rest.
      writes_back: results are written back at once.
    """

    cut: float
    powers: tuple[float, float]
    filled: float
    writes_back: bool


class Rounded(NamedTuple):
    """Stays of a fractional solution.

    Attributes:
      least: share of paths from which on an access counts as fast.
      order: a key of `ORDERS`.
      writes_back: results are written back at once.
    """

    least: float
    order: str
    writes_back: bool


RULES: tuple[Knapsack | Rounded, ...] = (
    Knapsack(0.1, (0.5, 0.5), 1.0, False),
    Knapsack(0.02, (1.0, 1.0), 1.0, False),
    Rounded(0.5, "benefit", False),
    Knapsack(0.1, (0.5, 0.0), 0.8, False),
    Knapsack(1.0, (1.0, 0.5), 1.0, False),
    Knapsack(0.1, (1.0, 0.0), 1.0, True),
    Knapsack(0.02, (0.0, 0.0), 1.0, False),
    Rounded(0.15, "benefit", True),
    Knapsack(0.02, (1.0, 0.5), 0.8, False),
    Knapsack(0.1, (1.0, 0.5), 1.0, False),
    Knapsack(0.02, (0.0, 0.0), 0.8, False),
    Knapsack(0.1, (1.0, 0.0), 1.0, False),
)


def random_knapsack(draw: np.random.Generator) -> Knapsack:
    """Returns a knapsack with random settings."""
    cut, powers = CUTS[int(draw.integers(len(CUTS)))], POWERS[int(draw.integers(len(POWERS)))]
    return Knapsack(cut, powers, float(draw.uniform(0.6, 1.0)), bool(draw.integers(4) == 0))


class Portfolio:
    """The rules' plans for a program by one clock; what several rules share is computed once."""

    def __init__(self, tables: Tables, reserved: NDArray[np.int64]) -> None:
        """Args: the tables that plans are played on, and `[T]` the bytes that each instruction reserves."""
        self.tables, self.free = tables, free_bytes(tables, reserved)
        self._stays: dict[float, Stays] = {}
        self._prices: Prices | None = None

    def plan(self, rule: Knapsack | Rounded) -> Plan | None:
        """Returns the plan `[A]` of a rule; None if it takes no stay."""
        if isinstance(rule, Knapsack):
            stays = self.stays(rule.cut)
            order, filled = by_density(stays, *rule.powers), rule.filled
        else:
            stays, share = stays_of_prices(self.tables, self.prices, rule.least)
            order, filled = order_by(rule.order, stays, share), 1.0
        if not len(order):
            return None
        return plan_of_stays(self.tables, stays, take(order, stays, filled * self.free), rule.writes_back)

    def stays(self, cut: float) -> Stays:
        """Returns the stays of a cut."""
        if cut not in self._stays:
            self._stays[cut] = make_stays(self.tables, cut)
        return self._stays[cut]

    @property
    def prices(self) -> Prices:
        """The fractional solution."""
        if self._prices is None:
            self._prices = find_prices(self.tables, self.free)
        return self._prices
