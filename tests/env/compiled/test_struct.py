import gc
import pickle
import re
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mallocmuzero.env.compiled.kernel import kernel
from mallocmuzero.env.compiled.struct import Rows, Struct, array, function, new_record, one, part, rows

_BUFFER = np.dtype([("size", np.int64), ("gain", np.float64), ("fast", np.int8)], align=True)
_NOW = np.dtype([("access", np.int64), ("reward", np.float64)])


class Inner(Struct):
    buffer: Rows = rows(_BUFFER)
    idle_s: NDArray[np.float64] = rows(np.float64)
    now: Any = one(_NOW)


@kernel(Inner, int, returns=float)
def _take(inner: Inner, number: int) -> float:
    buffer = inner.buffer[number]
    buffer.fast = 1
    inner.now.access += 1
    inner.idle_s[number] -= 0.5
    return buffer.gain


class Outer(Struct):
    inner: Inner = part(Inner)
    bank: NDArray[np.uint8] = array(np.uint8, 2)
    take = function(_take)


@kernel(Outer, returns=float)
def _take_all(outer: Outer) -> float:
    total = 0.0
    for number in range(len(outer.inner.buffer)):
        total += outer.take(outer.inner, number)
        outer.bank[1, number] = 7
    return total


def an_inner(count: int = 3) -> Inner:
    inner = Inner(buffer=np.zeros(count, _BUFFER), idle_s=np.ones(count), now=new_record(_NOW, reward=2.5))
    inner.buffer["gain"] = np.arange(count) + 1.0
    return inner


def test_compiled_code_reads_and_writes_the_callers_own_arrays() -> None:
    inner = an_inner()
    outer = Outer(inner=inner, bank=np.zeros((2, 3), np.uint8))
    assert _take_all(outer) == 6.0
    assert inner.buffer["fast"].tolist() == [1, 1, 1]
    assert inner.idle_s.tolist() == [0.5, 0.5, 0.5]
    assert (inner.now.access, inner.now.reward) == (3, 2.5)
    assert outer.bank.tolist() == [[0, 0, 0], [7, 7, 7]]


def test_a_structure_keeps_its_arrays_alive() -> None:
    outer = Outer(inner=an_inner(100_000), bank=np.zeros((2, 100_000), np.uint8))
    gc.collect()
    _ = [np.full(100_000, 9.0) for _ in range(10)]  # would take the memory of arrays that were let go
    assert _take_all(outer) == 100_000 * 100_001 / 2


def test_replaced_fields_share_the_others() -> None:
    inner = an_inner()
    other = inner.replace(idle_s=np.zeros(3))
    _take(other, 1)
    assert inner.buffer["fast"].tolist() == [0, 1, 0]
    assert inner.idle_s.tolist() == [1.0, 1.0, 1.0]
    assert other.idle_s.tolist() == [0.0, -0.5, 0.0]


def test_a_structure_survives_pickling_with_addresses_of_its_own() -> None:
    outer = Outer(inner=an_inner(), bank=np.zeros((2, 3), np.uint8))
    copied = pickle.loads(pickle.dumps(outer))
    assert _take_all(copied) == 6.0
    assert not outer.bank.any()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"idle_s": np.zeros(3, np.float32)}, "Inner.idle_s holds float32, not float64"),
        ({"idle_s": np.zeros((3, 1))}, "Inner.idle_s must be contiguous with 1 dimensions"),
        ({"idle_s": np.zeros(6)[::2]}, "Inner.idle_s must be contiguous"),
        ({"buffer": np.zeros(3)}, "Inner.buffer holds float64"),
        ({"idle_s": [1.0]}, "Inner.idle_s holds <class 'list'>"),
        ({"other": 1}, "Inner has the fields buffer, idle_s, now, not"),
    ],
)
def test_what_compiled_code_would_misread_is_refused(fields: dict[str, Any], message: str) -> None:
    given = {"buffer": np.zeros(3, _BUFFER), "idle_s": np.zeros(3), "now": new_record(_NOW)}
    with pytest.raises(TypeError, match=re.escape(message)):
        Inner(**{**given, **fields})
    with pytest.raises(TypeError, match=r"Outer\.inner is a str"):
        Outer(inner="inner", bank=np.zeros((2, 3), np.uint8))
