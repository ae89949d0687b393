import sys
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numba.core import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from mallocmuzero.env.compiled.unowned import unowned


class Inner(NamedTuple):
    numbers: NDArray[np.int64]


class Outer(NamedTuple):
    inner: Inner
    square: NDArray[np.float64]
    pair: tuple[NDArray[np.int64], NDArray[np.int64]]


@njit
def _count_up(record: Outer) -> float:
    record = unowned(record)
    record.inner.numbers[0] += 1
    record.pair[1][2] += 5
    return record.square[1, 2] + record.pair[0][0]


@njit
def _copied_size(record: Outer) -> int:
    record = unowned(record)
    return len(record.inner.numbers.copy()) + len(record.pair[0])


@intrinsic
def _owner(typingctx: Any, array: Any) -> Any:
    def read(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ptrtoint(builder.extract_value(arguments[0], 0), context.get_value_type(types.intp))

    return types.intp(array), read


@njit
def _owner_of_square(record: Outer, borrows: bool) -> int:
    """Returns the address at which references to an array are counted; 0 for none."""
    if borrows:
        record = unowned(record)
    return int(_owner(record.square))


def a_record() -> Outer:
    numbers = np.arange(3)
    return Outer(Inner(numbers), np.arange(12.0).reshape(3, 4), (numbers + 10, numbers + 20))


def test_a_borrowed_record_is_the_callers_own_at_any_depth() -> None:
    record = a_record()
    assert _count_up(record) == 6.0 + 10
    assert record.inner.numbers.tolist() == [1, 1, 2]
    assert record.pair[1].tolist() == [20, 21, 27]


def test_borrowing_frees_nothing_and_keeps_nothing() -> None:
    record = a_record()
    before = [sys.getrefcount(array) for array in (record.inner.numbers, record.square, *record.pair)]
    for _ in range(100):
        assert _copied_size(record) == 6
    assert before == [sys.getrefcount(array) for array in (record.inner.numbers, record.square, *record.pair)]
    assert record.square.sum() == 66.0


def test_the_arrays_belong_to_nobody() -> None:
    assert _owner_of_square(a_record(), False) != 0
    assert _owner_of_square(a_record(), True) == 0
