"""Sorting in compiled code gives what NumPy gives."""

import numpy as np
import pytest

from mallocmuzero.env.compiled.kernel import kernel, vector
from mallocmuzero.env.compiled.sorting import ascending, first_above, first_at_least, sort_rows
from mallocmuzero.env.compiled.struct import Struct, rows


@kernel(vector(np.int64), returns=vector(np.int64))
def _order(keys: np.ndarray) -> np.ndarray:
    return ascending(keys)


@kernel(vector(np.int64), float, bool, returns=int)
def _place(keys: np.ndarray, key: float, above: bool) -> int:
    return first_above(keys, key) if above else first_at_least(keys, key)


@kernel(vector(np.float64), returns=vector(np.int64))
def _order_of_floats(keys: np.ndarray) -> np.ndarray:
    return ascending(keys)


@kernel(vector(np.float64), float, bool, returns=int)
def _place_in_floats(keys: np.ndarray, key: float, above: bool) -> int:
    return first_above(keys, key) if above else first_at_least(keys, key)


@pytest.mark.parametrize("count", [0, 1, 2, 15, 16, 17, 33, 100, 1000])
@pytest.mark.parametrize("kind", ["integers", "floats"])
def test_orders_and_places_are_those_of_numpy(count: int, kind: str) -> None:
    generator = np.random.default_rng(count)
    keys = generator.integers(-5, 20, count)  # many equal ones
    if kind == "floats":
        keys = np.round(generator.standard_normal(count), 1)
    order, place = (_order, _place) if kind == "integers" else (_order_of_floats, _place_in_floats)
    assert np.array_equal(order(keys), np.argsort(keys, kind="stable"))
    wanted = np.sort(keys)
    for key in (-100, *np.unique(keys)[:10], 100):
        assert place(wanted, float(key), False) == np.searchsorted(wanted, key, side="left")
        assert place(wanted, float(key), True) == np.searchsorted(wanted, key, side="right")


class _Keys(Struct):
    key: np.ndarray = rows(np.int64)
    order: np.ndarray = rows(np.int64)
    spare: np.ndarray = rows(np.int64)


@kernel(_Keys, int)
def _sort_rows(keys: _Keys, count: int) -> None:
    sort_rows(keys.key, keys.order, keys.spare, count)


@pytest.mark.parametrize("count", [0, 1, 2, 15, 16, 17, 33, 100, 1000])
@pytest.mark.parametrize("nearly", [False, True])
def test_rows_are_sorted_stably_and_none_beyond(count: int, nearly: bool) -> None:
    generator = np.random.default_rng(count)
    key = generator.integers(-5, 20, count + 3)
    if nearly:  # runs in order are not merged
        key = np.sort(key)
        moved = generator.integers(0, count + 3, 2)
        key[moved] = key[moved[::-1]]
    keys = _Keys(key=key, order=np.full(count + 3, -1), spare=np.full(count + 3, -1))
    _sort_rows(keys, count)
    assert np.array_equal(keys.order[:count], np.argsort(key[:count], kind="stable"))
    assert (keys.order[count:] == -1).all()


def test_compiled_code_uses_no_sort_of_numba() -> None:
    """Its inner functions are mixed up between processes that keep compiled code: decision 7."""
    import ast
    from pathlib import Path

    root = Path(__file__).parents[3]
    found = []
    for path in (*(root / "env").rglob("*.py"), *(root / "solvers").rglob("*.py")):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef) and any(
                name in ast.unparse(d) for d in function.decorator_list for name in ("njit", "kernel", "routine")
            ):
                calls = (ast.unparse(call.func) for call in ast.walk(function) if isinstance(call, ast.Call))
                found += [f"{path.relative_to(root)}: {name}" for name in calls if name in _OF_NUMBA or ".sort" in name]
    assert not found


_OF_NUMBA = {f"np.{name}" for name in ("argsort", "sort", "searchsorted", "unique", "median", "quantile", "partition")}
