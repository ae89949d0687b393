"""Lowering a function of this process: arguments are what they are in a call."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import export

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
