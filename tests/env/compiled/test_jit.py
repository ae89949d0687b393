"""Compiled functions are compiled once for each types of arguments."""

import numpy as np

from mallocmuzero.env.compiled.jit import njit


@njit(cache=False)
def scaled(value: float, factor: int, negative: bool) -> float:
    return -value * factor if negative else value * factor


@njit(cache=False)
def total(values: np.ndarray) -> float:
    factor = 0
    result = scaled(1.0, 2, False) + scaled(1.0, 3, True)
    while factor < len(values):
        result += scaled(values[factor], factor, values[factor] < 0.0)
        factor += 1
    return result


def test_literal_arguments_are_no_types_of_their_own() -> None:
    values = np.array([1.0, -2.0, 3.0])
    assert total(values) == 2.0 - 3.0 + 2.0 + 6.0
    assert len(scaled.signatures) == 1


def test_compiled_code_is_also_called_from_python() -> None:
    assert scaled(2.0, 3, True) == -6.0
