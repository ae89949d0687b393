"""Sorting of rows in place (`solvers/xla/sorting.py`)."""

import numpy as np
import pytest

from mallocmuzero.env.compiled.kernel import kernel
from mallocmuzero.env.compiled.struct import Rows, Struct, rows
from mallocmuzero.solvers.xla.sorting import sort


class _Keys(Struct):
    key: Rows = rows(np.int64)
    spare: Rows = rows(np.int64)


@kernel(_Keys, int)
def _sort(keys: _Keys, count: int) -> None:
    sort(keys.key, keys.spare, count)


@pytest.mark.parametrize("count", [0, 1, 2, 16, 17, 33, 70])
def test_rows_are_sorted_up_to_a_count(count: int) -> None:
    key = np.random.default_rng(count).integers(-20, 20, 80)
    keys = _Keys(key=key, spare=np.zeros(80, np.int64))
    expected = np.concatenate([np.sort(key[:count]), key[count:]])
    _sort(keys, count)
    np.testing.assert_array_equal(keys.key, expected)
