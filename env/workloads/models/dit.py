"""Diffusion transformers under `lax.scan`, after Peebles and Xie 2023, arXiv:2212.09748."""

from collections.abc import Callable
from functools import partial
from typing import Any

from .common import Described, array, squared_error, training_step
from .repeated import attend, parameters, scanned, standardised

_WIDTH, _HEADS, _PATCH = 768, 12, 2


def dit_scan_b16() -> Described:
    """Inference with DiT-B/2 on 32 x 32 latents, batch 16, twelve scanned layers."""
    return (lambda params, x, when, kind: _run(params, x, when, kind, False, attend)), _arguments(12, 16)


def dit_scan_train_b8() -> Described:
    """Training step of eight layers of DiT-B/2 on 32 x 32 latents, batch 8, scanned."""
    return training(8, 8, rematerialised=False)


def dit_scan_remat_train_b32() -> Described:
    """Training step of DiT-B/2 on 32 x 32 latents, batch 32, scanned and computed again for the gradients."""
    return training(12, 32, rematerialised=True)


def training(layers: int, batch: int, rematerialised: bool, attention: Callable[..., Any] = attend) -> Described:
    """Returns the training step; `attention` takes what `repeated.attend` does."""
    params, x, when, kind = _arguments(layers, batch)

    def loss(params: Any, x: Any, when: Any, kind: Any, noise: Any) -> Any:
        return squared_error(_run(params, x, when, kind, rematerialised, attention), noise)

    return training_step(loss, params, x, when, kind, x)


def _arguments(layers: int, batch: int) -> tuple[Any, ...]:
    values = 4 * _PATCH * _PATCH
    shapes = {
        "modulate": (_WIDTH, 6 * _WIDTH),
        "qkv": (_WIDTH, 3, _HEADS, _WIDTH // _HEADS),
        "out": (_WIDTH, _WIDTH),
        "up": (_WIDTH, 4 * _WIDTH),
        "down": (4 * _WIDTH, _WIDTH),
    }
    params = parameters(
        {
            "patch": (values, _WIDTH),
            "place": ((32 // _PATCH) ** 2, _WIDTH),
            "when": (256, _WIDTH),
            "kinds": (1000, _WIDTH),
            "last": (_WIDTH, 2 * _WIDTH),
            "pixels": (_WIDTH, values),
        }
    )
    params["layers"] = parameters(shapes, layers)
    return params, array((batch, 32, 32, 4)), array((batch, 256)), array((batch,), "int32")


def _run(params: Any, x: Any, when: Any, kind: Any, rematerialised: bool, attention: Callable[..., Any]) -> Any:
    import jax
    import jax.numpy as jnp

    batch, side = x.shape[0], x.shape[1] // _PATCH
    patches = x.reshape(batch, side, _PATCH, side, _PATCH, 4).swapaxes(2, 3).reshape(batch, side * side, -1)
    condition = jax.nn.silu(when @ params["when"] + params["kinds"][kind])
    y = patches @ params["patch"] + params["place"]
    y = scanned(partial(_layer, attention), params["layers"], y, condition, rematerialised=rematerialised)
    shift, scale = jnp.split((condition @ params["last"])[:, None], 2, -1)
    y = (standardised(y) * (1 + scale) + shift) @ params["pixels"]
    return y.reshape(batch, side, side, _PATCH, _PATCH, 4).swapaxes(2, 3).reshape(x.shape)


def _layer(attention: Callable[..., Any], params: Any, x: Any, condition: Any) -> Any:
    import jax
    import jax.numpy as jnp

    one, two, three, four, five, six = jnp.split((condition @ params["modulate"])[:, None], 6, -1)
    qkv = jnp.einsum("bsd,dkhe->kbshe", standardised(x) * (1 + one) + two, params["qkv"])
    x = x + three * (attention(*qkv) @ params["out"])
    return x + six * (jax.nn.gelu((standardised(x) * (1 + four) + five) @ params["up"]) @ params["down"])
