"""Gemma-style decoders, under `lax.scan` and unrolled, after Gemma Team 2024, arXiv:2403.08295."""

from typing import Any

from .common import Described, array
from .repeated import adam_step, attend, entropy, looked_up, parameters, rms, rotated, scanned, unrolled

_WIDTH, _HEADS, _HEAD, _HIDDEN, _VOCABULARY = 1024, 8, 128, 4096, 16384
# The parameters of a layer.
_SHAPES = {
    "before": (_WIDTH,),
    "query": (_WIDTH, _HEADS, _HEAD),
    "key": (_WIDTH, 2, 1, _HEAD),
    "out": (_HEADS * _HEAD, _WIDTH),
    "between": (_WIDTH,),
    "gate": (_WIDTH, 2, _HIDDEN),
    "down": (_HIDDEN, _WIDTH),
}


def gemma_scan_b4_s512() -> Described:
    """Inference with twelve scanned layers, batch 4, length 512: logits of the last token."""
    return (lambda params, ids: _logits(params, _run(params, ids, False)[:, -1])), (
        _params(12),
        array((4, 512), "int32"),
    )


def gemma_scan_train_b4_s512() -> Described:
    """Training step of eight scanned layers, batch 4, length 512."""
    return _training(8, 4, 512, rematerialised=False)


def gemma_scan_remat_train_b8_s512() -> Described:
    """Training step of twelve scanned layers, computed again for their gradients, batch 8, length 512."""
    return _training(12, 8, 512, rematerialised=True, product=True)


def gemma_24_adam_b4_s256() -> Described:
    """Training step with Adam of 24 unrolled layers, batch 4, length 256."""

    def loss(params: Any, ids: Any, labels: Any) -> Any:
        x = unrolled(_layer, params["layers"], looked_up(params["table"], ids, False) * 32)
        return entropy(_logits(params, x), labels, False)

    ids = array((4, 256), "int32")
    return adam_step(loss, _whole() | {"layers": [parameters(_SHAPES) for _ in range(24)]}, ids, ids)


def _training(layers: int, batch: int, length: int, rematerialised: bool, product: bool = False) -> Described:
    def loss(params: Any, ids: Any, labels: Any) -> Any:
        return entropy(_logits(params, _run(params, ids, rematerialised, product)), labels, product)

    ids = array((batch, length), "int32")
    return adam_step(loss, _params(layers), ids, ids)


def _params(layers: int) -> Any:
    return _whole() | {"layers": parameters(_SHAPES, layers)}


def _whole() -> Any:
    return parameters({"table": (_VOCABULARY, _WIDTH), "last": (_WIDTH,)})


def _run(params: Any, ids: Any, rematerialised: bool, product: bool = False) -> Any:
    x = looked_up(params["table"], ids, product) * 32
    return scanned(_layer, params["layers"], x, rematerialised=rematerialised)


def _layer(params: Any, x: Any) -> Any:
    import jax
    import jax.numpy as jnp

    y = rms(x, params["before"])
    q = rotated(jnp.einsum("bsd,dhe->bshe", y, params["query"]))
    keys = jnp.einsum("bsd,dkge->kbsge", y, params["key"])
    x = x + attend(q, rotated(keys[0]), keys[1], causal=True) @ params["out"]
    gates = jnp.einsum("bsd,dkh->kbsh", rms(x, params["between"]), params["gate"])
    return x + (jax.nn.gelu(gates[0]) * gates[1]) @ params["down"]


def _logits(params: Any, x: Any) -> Any:
    return rms(x, params["last"]) @ params["table"].T
