import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from mallocmuzero.env.compiled.kernel import address_of, compile_kernel, kernel, routine, vector

_SOURCE = """
import numpy as np
from mallocmuzero.env.compiled.kernel import kernel, routine, vector

@routine
def square(x):
    return x * x

@routine
def add_squares(numbers, scale):
    total = 0.0
    for k in range(len(numbers)):
        total += square(numbers[k]) * scale
    return total

@kernel(vector(np.float64), int, returns=float)
def both(numbers, times):
    return add_squares(numbers, 1) + add_squares(numbers, times)

print(both(np.arange(4.0), 2), dict(both.stats.cache_hits) != {})
"""


@routine
def _scaled(x: float, by: int) -> float:
    return x * by


@kernel(vector(np.float64), int, returns=float)
def _total(numbers: np.ndarray, by: int) -> float:
    total = _scaled(0.5, 2) - _scaled(0.5, 2)
    for k in range(len(numbers)):
        total += _scaled(numbers[k], by)
    return total


def test_a_kernel_is_compiled_with_its_routines_once() -> None:
    assert _total(np.arange(4.0), 3) == 18.0
    compile_kernel(_total)
    assert len(_total.overloads) == 1
    # The literals 2 and `by` are of one type. Nothing is compiled where the kernel comes from disk.
    assert len(_scaled.overloads) <= 1  # type: ignore[attr-defined]


def test_a_compiled_kernel_takes_no_other_types() -> None:
    compile_kernel(_total)
    with pytest.raises(TypeError, match="No matching definition"):
        _total(np.zeros((2, 2)), 3)


def test_python_cannot_call_a_routine() -> None:
    for _ in range(2):
        with pytest.raises(TypeError, match="_scaled is a routine"):
            _scaled(0.5, 2)
        compile_kernel(_total)


def test_a_kernel_has_an_address() -> None:
    assert address_of(_total) == _total.address() > 0  # type: ignore[attr-defined]


def test_another_process_loads_what_one_has_compiled(tmp_path: Path) -> None:
    source = tmp_path / "kernels.py"
    source.write_text(_SOURCE, encoding="utf-8")
    outputs = [
        subprocess.run(
            [sys.executable, source],
            env={"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PATH": ""},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for _ in range(2)
    ]
    assert outputs == [["42.0", "False"], ["42.0", "True"]]


@kernel(int, returns=int)
def _next(number: int) -> int:
    return number + 1


def test_threads_may_call_a_kernel_first() -> None:
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(_next, range(8))) == list(range(1, 9))
