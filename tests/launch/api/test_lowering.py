"""Lowering a function of this process: arguments are what they are in a call."""

import functools
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import export

import mallocmuzero
from mallocmuzero.launch.api.lowering import lower

ARRAY = jax.ShapeDtypeStruct((4, 4), jnp.bfloat16)


@functools.partial(jax.jit, static_argnums=(1, 2))
def repeated(w: Any, times: int, mode: str) -> Any:
    return w * times if mode == "more" else w


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (lambda w, rate: w - rate * w, (ARRAY, 1e-3)),  # a strong type would make it float32
        (lambda w, rate: w - rate * w, (ARRAY, jnp.asarray(1e-3))),
        (repeated, (ARRAY, 3, "more")),
    ],
)
def test_numbers_are_weakly_typed_and_static_arguments_stay(
    monkeypatch: pytest.MonkeyPatch, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> None:
    results = []
    wrapped = export.export

    def noting(*args: Any, **how: Any) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            exported = wrapped(*args, **how)(*given)
            results.append([aval.dtype for aval in exported.out_avals])
            return exported

        return call

    monkeypatch.setattr(export, "export", noting)
    assert lower(function, arguments)
    assert results == [[jnp.bfloat16]]


SHARDED = """
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from mallocmuzero.env.capture.worker import DEVICES
from mallocmuzero.launch.api.function import check_function, read_function
import mallocmuzero
from mallocmuzero.launch.api.lowering import lower

ring = [jax.devices()[number] for number in (0, 1, 3, 2)]
rows = NamedSharding(Mesh(ring, ("data",)), P("data"))
x = jax.device_put(jnp.ones((8, 128)), rows)


def total(x):
    return jnp.sum(x)


print(lower(total, (x,)).devices, lower(total, (jax.ShapeDtypeStruct(x.shape, x.dtype),)).devices)
print(lower(total, (x,)).order)
# The sharding may be the function's own, and the arguments abstract.
given = jax.jit(total, in_shardings=rows)
print(lower(given, (jax.ShapeDtypeStruct(x.shape, x.dtype),)).order)
python = Path(sys.executable)
found = read_function(total, check_function(total, (x,), python), python, "v5e:2x2")
print(found.reference, DEVICES.encode() in found.module)
"""


def test_a_function_is_sharded_as_its_arguments_are() -> None:
    settings = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    done = subprocess.run(
        [sys.executable, "-c", SHARDED], env={**os.environ, **settings}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["4 1", "(0, 1, 3, 2)", "(0, 1, 3, 2)", "__main__:total True"]


@pytest.mark.parametrize("call", [mallocmuzero.capture, mallocmuzero.tune])
def test_a_function_is_traced_before_an_interpreter_is_made(
    monkeypatch: pytest.MonkeyPatch, call: Callable[..., Any]
) -> None:
    def unwanted(*arguments: Any) -> None:
        raise AssertionError("an interpreter was looked for")

    def wrong(x: Any) -> Any:
        return x @ jnp.ones((3, 3))

    monkeypatch.setattr("mallocmuzero.env.capture.environment.find_interpreter", unwanted)
    with pytest.raises(TypeError, match="contracting dimensions"):
        call(wrong, (ARRAY,))
