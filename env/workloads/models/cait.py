"""Training steps of deep vision transformers in plain JAX, unrolled, after Touvron et al. 2021, arXiv:2103.17239."""

from typing import Any

from .common import Described, array, cross_entropy
from .repeated import adam_step, attend, parameters, standardised

_WIDTH, _HEADS, _PATCH = 384, 8, 16


def cait_48_adam_b16() -> Described:
    """Training step with Adam of a CaiT of 48 layers of width 384 with scaled branches, batch 16."""
    shapes = {
        "qkv": (_WIDTH, 3, _HEADS, _WIDTH // _HEADS),
        "qkv_bias": (3, 1, 1, _HEADS, _WIDTH // _HEADS),
        "out": (_WIDTH, _WIDTH),
        "out_bias": (_WIDTH,),
        "up": (_WIDTH, 4 * _WIDTH),
        "up_bias": (4 * _WIDTH,),
        "down": (4 * _WIDTH, _WIDTH),
        "down_bias": (_WIDTH,),
        "attended": (_WIDTH,),
        "widened": (_WIDTH,),
        "before": (_WIDTH,),
        "between": (_WIDTH,),
    }
    params = parameters({"patch": (_PATCH**2 * 3, _WIDTH), "place": (196, _WIDTH), "classes": (_WIDTH, 1000)})
    params["layers"] = [parameters(shapes) for _ in range(48)]

    def loss(params: Any, images: Any, labels: Any) -> Any:
        return cross_entropy(_run(params, images), labels)

    return adam_step(loss, params, array((16, 224, 224, 3)), array((16,), "int32"))


def _run(params: Any, images: Any) -> Any:
    side = 224 // _PATCH
    patches = images.reshape(-1, side, _PATCH, side, _PATCH, 3).swapaxes(2, 3).reshape(-1, side * side, _PATCH**2 * 3)
    x = patches @ params["patch"] + params["place"]
    for layer in params["layers"]:
        x = _layer(layer, x)
    return standardised(x).mean(1) @ params["classes"]


def _layer(params: Any, x: Any) -> Any:
    import jax
    import jax.numpy as jnp

    y = standardised(x) * params["before"]
    q, k, v = jnp.einsum("bsd,dkhe->kbshe", y, params["qkv"]) + params["qkv_bias"]
    x = x + params["attended"] * (attend(q, k, v) @ params["out"] + params["out_bias"])
    y = jax.nn.gelu((standardised(x) * params["between"]) @ params["up"] + params["up_bias"])
    return x + params["widened"] * (y @ params["down"] + params["down_bias"])
