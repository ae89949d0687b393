"""Llama-style decoders under `lax.scan`, in plain JAX: grouped queries, rotary positions, gated SiLU."""

from collections.abc import Callable
from functools import partial
from typing import Any

from .common import Described, array, cross_entropy, training_step
from .repeated import adam_step, attend, parameters, rms, rotated, scanned

_WIDTH, _HEADS, _GROUPS, _HIDDEN, _VOCABULARY = 1024, 16, 4, 2816, 32000


def llama_scan_b4_s512() -> Described:
    """Inference with twelve scanned layers of width 1024, batch 4, length 512: logits of the last token."""
    return last_logits(), (params(12), array((4, 512), "int32"))


def llama_scan_train_b4_s512() -> Described:
    """Training step of eight scanned layers, batch 4, length 512."""
    return training_step(loss(rematerialised=False), params(8), *batch(4, 512))


def llama_scan_remat_train_b8_s512() -> Described:
    """Training step with Adam of twelve scanned layers, computed again for their gradients, batch 8, length 512."""
    return adam_step(loss(rematerialised=True), params(12), *batch(8, 512))


def batch(size: int, length: int) -> tuple[Any, Any]:
    """Returns abstract tokens and wanted tokens."""
    ids = array((size, length), "int32")
    return ids, ids


def loss(rematerialised: bool, attention: Callable[..., Any] = attend) -> Any:
    """Returns the loss of parameters, tokens and wanted tokens."""

    def of(params: Any, ids: Any, labels: Any) -> Any:
        return cross_entropy(_logits(params, run(params, ids, rematerialised, attention)), labels)

    return of


def last_logits(attention: Callable[..., Any] = attend) -> Any:
    """Returns the function of parameters and tokens that gives the logits of the last token."""
    return lambda params, ids: _logits(params, run(params, ids, False, attention)[:, -1])


def params(layers: int) -> Any:
    """Returns abstract parameters, those of the layers stacked."""
    shapes = {
        "before": (_WIDTH,),
        "query": (_WIDTH, _HEADS, _WIDTH // _HEADS),
        "key": (_WIDTH, _GROUPS, _WIDTH // _HEADS),
        "value": (_WIDTH, _GROUPS, _WIDTH // _HEADS),
        "out": (_WIDTH, _WIDTH),
        "between": (_WIDTH,),
        "gate": (_WIDTH, _HIDDEN),
        "up": (_WIDTH, _HIDDEN),
        "down": (_HIDDEN, _WIDTH),
    }
    whole = {"table": (_VOCABULARY, _WIDTH), "last": (_WIDTH,), "head": (_WIDTH, _VOCABULARY)}
    return parameters(whole) | {"layers": parameters(shapes, layers)}


def run(params: Any, ids: Any, rematerialised: bool, attention: Callable[..., Any] = attend) -> Any:
    """Returns the result of the last layer, `[B, S, width]`; `attention` takes what `repeated.attend` does."""
    layer = partial(_layer, attention)
    return scanned(layer, params["layers"], params["table"][ids], rematerialised=rematerialised)


def _layer(attention: Callable[..., Any], params: Any, x: Any) -> Any:
    import jax
    import jax.numpy as jnp

    y = rms(x, params["before"])
    q, k, v = (jnp.einsum("bsd,dhe->bshe", y, params[name]) for name in ("query", "key", "value"))
    x = x + attention(rotated(q), rotated(k), v, causal=True) @ params["out"]
    y = rms(x, params["between"])
    return x + (jax.nn.silu(y @ params["gate"]) * (y @ params["up"])) @ params["down"]


def _logits(params: Any, x: Any) -> Any:
    return rms(x, params["last"]) @ params["head"]
