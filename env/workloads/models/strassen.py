"""Fast multiplication of 4 x 4 block matrices: Strassen, "Gaussian Elimination is not Optimal", 1969, applied twice.

49 block products instead of 64, as many as AlphaTensor found for ordinary arithmetic (its 47 hold modulo two).
"""

from typing import Any

from .common import Described, array

# Strassen's seven products of 2 x 2 blocks: the coefficients of A's and B's blocks, and each product's in the result.
_LEFT = ((1, 0, 0, 1), (0, 0, 1, 1), (1, 0, 0, 0), (0, 0, 0, 1), (1, 1, 0, 0), (-1, 0, 1, 0), (0, 1, 0, -1))
_RIGHT = ((1, 0, 0, 1), (1, 0, 0, 0), (0, 1, 0, -1), (-1, 0, 1, 0), (0, 0, 0, 1), (1, 1, 0, 0), (0, 0, 1, 1))
_RESULT = ((1, 0, 0, 1), (0, 1, 0, -1), (0, 0, 1, 1), (1, 1, 0, 0), (-1, 0, 1, 0), (0, 0, 0, 1), (1, 0, 0, 0))


def strassen_4096() -> Described:
    """Product of two bfloat16 matrices of 4096 x 4096, in blocks of 1024."""
    return _multiply, (array((4096, 4096)), array((4096, 4096)))


def strassen_8192() -> Described:
    """Product of two bfloat16 matrices of 8192 x 8192, in blocks of 2048."""
    return _multiply, (array((8192, 8192)), array((8192, 8192)))


def _multiply(left: Any, right: Any) -> Any:
    import jax.numpy as jnp

    def split(matrix: Any) -> list[Any]:
        """Returns the 16 blocks: quarters of the first quarter first."""
        return [block for quarter in _quarters(matrix) for block in _quarters(quarter)]

    factors = [_squared(table) for table in (_LEFT, _RIGHT, _RESULT)]
    blocks_left, blocks_right = split(left), split(right)
    products = [
        _combine(of_left, blocks_left) @ _combine(of_right, blocks_right)
        for of_left, of_right in zip(factors[0], factors[1], strict=True)
    ]
    results = [_combine(tuple(row[block] for row in factors[2]), products) for block in range(16)]

    def join(quarters: list[Any]) -> Any:
        return jnp.block([quarters[:2], quarters[2:]])

    return join([join(results[4 * number : 4 * number + 4]) for number in range(4)])


def _quarters(matrix: Any) -> list[Any]:
    half = matrix.shape[0] // 2
    return [
        matrix[rows, columns]
        for rows in (slice(half), slice(half, None))
        for columns in (slice(half), slice(half, None))
    ]


def _squared(table: tuple[tuple[int, ...], ...]) -> list[tuple[int, ...]]:
    """Returns the Kronecker square: the coefficients of the algorithm applied to its own block products."""
    return [tuple(a * b for a in outer for b in inner) for outer in table for inner in table]


def _combine(coefficients: tuple[int, ...], blocks: list[Any]) -> Any:
    total: Any = None
    for coefficient, block in zip(coefficients, blocks, strict=True):
        if coefficient:
            term = block if coefficient > 0 else -block
            total = term if total is None else total + term
    return total
