"""A linear program under construction, and the linear expressions that its rows are made of."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

INFINITY = float("inf")


@dataclass
class LinearProgram:
    """Minimise `cost @ x + offset` over `row_low <= A x <= row_high`, `low <= x <= high`, some `x` integer."""

    cost: list[float] = field(default_factory=list)
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)
    integer: list[bool] = field(default_factory=list)
    row_low: list[float] = field(default_factory=list)
    row_high: list[float] = field(default_factory=list)
    offset: float = 0.0
    _rows: list[int] = field(default_factory=list)
    _columns: list[int] = field(default_factory=list)
    _values: list[float] = field(default_factory=list)

    def column(self, low: float = 0.0, high: float = 1.0, cost: float = 0.0, integer: bool = False) -> int:
        """Adds a column and returns its number."""
        self.cost.append(cost)
        self.low.append(low)
        self.high.append(high)
        self.integer.append(integer)
        return len(self.cost) - 1

    def row(self, terms: "Iterable[tuple[int, float]] | Expression", low: float, high: float) -> int:
        """Adds `low <= sum of coefficient * column <= high` and returns its number. The constant of an expression is
        moved to both sides."""
        constant = 0.0
        if isinstance(terms, Expression):
            constant = terms.constant
            terms = terms.terms.items()
        number = len(self.row_low)
        for column, value in terms:
            self._rows.append(number)
            self._columns.append(column)
            self._values.append(value)
        self.row_low.append(low - constant)
        self.row_high.append(high - constant)
        return number

    def at_least(self, expression: "Expression", bound: float = 0.0) -> None:
        """Adds `expression >= bound`, unless the bounds of the columns imply it."""
        least = expression.constant
        for column, value in expression.terms.items():
            least += value * (self.low[column] if value > 0 else self.high[column])
        if not least >= bound:
            self.row(expression, bound, INFINITY)

    def matrix(self) -> sparse.csr_matrix:
        """Returns `A`; coefficients added twice to one place are summed."""
        shape = (len(self.row_low), len(self.cost))
        return sparse.csr_matrix((self._values, (self._rows, self._columns)), shape=shape)

    def arrays(self) -> tuple[NDArray[np.float64], ...]:
        """Returns `cost`, `low`, `high`, `row_low`, `row_high`."""
        return tuple(np.array(v, np.float64) for v in (self.cost, self.low, self.high, self.row_low, self.row_high))


@dataclass
class Expression:
    """A constant plus a sum of columns times coefficients."""

    constant: float = 0.0
    terms: dict[int, float] = field(default_factory=dict)

    @staticmethod
    def of(column: int, coefficient: float = 1.0) -> "Expression":
        """Returns one column times a coefficient."""
        return Expression(0.0, {column: coefficient})

    def add(self, other: "Expression | float", factor: float = 1.0) -> "Expression":
        """Returns `self + factor * other`."""
        if not isinstance(other, Expression):
            return Expression(self.constant + factor * other, self.terms)
        terms = dict(self.terms)
        for column, value in other.terms.items():
            terms[column] = terms.get(column, 0.0) + factor * value
        return Expression(self.constant + factor * other.constant, terms)

    def include(self, other: "Expression", factor: float = 1.0) -> None:
        """Adds `factor * other` to this expression in place."""
        self.constant += factor * other.constant
        for column, value in other.terms.items():
            self.terms[column] = self.terms.get(column, 0.0) + factor * value

    def scaled(self, factor: float) -> "Expression":
        """Returns `factor * self`."""
        return Expression(factor * self.constant, {c: factor * v for c, v in self.terms.items()})

    def at(self, values: NDArray[np.float64]) -> float:
        """Returns its value where the columns have `values`."""
        return self.constant + sum(value * float(values[column]) for column, value in self.terms.items())
