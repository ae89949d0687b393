"""Retentive networks: chunks of a sequence in a loop over time, inside a loop over layers; after Sun et al. 2023,
arXiv:2307.08621."""

from typing import Any

from .common import Described, array, training_step
from .repeated import entropy, looked_up, parameters, rms, scanned

_WIDTH, _HEADS, _CHUNK, _VOCABULARY = 768, 6, 128, 16384


def retnet_scan_b8_s1024() -> Described:
    """Inference with eight scanned layers, batch 8, length 1024 in chunks of 128."""
    return (lambda params, ids: _run(params, ids, False)[:, -1]), (_params(8), array((8, 1024), "int32"))


def retnet_scan_train_b4_s1024() -> Described:
    """Training step of six scanned layers, batch 4, length 1024 in chunks of 128."""
    return _training(6, 4, 1024, rematerialised=False, product=True)


def retnet_scan_remat_train_b8_s1024() -> Described:
    """Training step of eight scanned layers, computed again for their gradients, batch 8, length 1024."""
    return _training(8, 8, 1024, rematerialised=True)


def _training(layers: int, batch: int, length: int, rematerialised: bool, product: bool = False) -> Described:
    def loss(params: Any, ids: Any, labels: Any) -> Any:
        return entropy(_run(params, ids, rematerialised, product), labels, product)

    ids = array((batch, length), "int32")
    return training_step(loss, _params(layers), ids, ids)


def _params(layers: int) -> Any:
    shapes = {
        "before": (_WIDTH,),
        "qkv": (_WIDTH, 3, _HEADS, _WIDTH // _HEADS),
        "gate": (_WIDTH, _WIDTH),
        "out": (_WIDTH, _WIDTH),
        "between": (_WIDTH,),
        "up": (_WIDTH, 2 * _WIDTH),
        "down": (2 * _WIDTH, _WIDTH),
    }
    return parameters({"table": (_VOCABULARY, _WIDTH), "last": (_WIDTH,)}) | {"layers": parameters(shapes, layers)}


def _run(params: Any, ids: Any, rematerialised: bool, product: bool = False) -> Any:
    x = looked_up(params["table"], ids, product)
    x = scanned(_layer, params["layers"], x, rematerialised=rematerialised)
    return rms(x, params["last"]) @ params["table"].T


def _layer(params: Any, x: Any) -> Any:
    import jax
    import jax.numpy as jnp

    y = rms(x, params["before"])
    kept = _retention(jnp.einsum("bsd,dkhe->kbshe", y, params["qkv"]))
    x = x + (jax.nn.silu(y @ params["gate"]) * kept.reshape(x.shape)) @ params["out"]
    return x + jax.nn.gelu(rms(x, params["between"]) @ params["up"]) @ params["down"]


def _retention(qkv: Any) -> Any:
    """Returns `[B, S, H, D]`: every chunk attends to itself, and to a decayed sum of those before."""
    import jax
    import jax.numpy as jnp

    _, batch, length, heads, width = qkv.shape
    chunks = qkv.reshape(3, batch, length // _CHUNK, _CHUNK, heads, width).transpose(2, 0, 1, 3, 4, 5)
    decay = 1.0 - 2.0 ** (-5.0 - jnp.arange(heads))
    apart = jnp.arange(_CHUNK)[:, None] - jnp.arange(_CHUNK)
    inside = jnp.where(apart >= 0, decay[:, None, None] ** apart, 0.0).astype(qkv.dtype)
    grown = (decay[:, None] ** (jnp.arange(_CHUNK) + 1.0)).astype(qkv.dtype)
    left = (decay[:, None] ** (_CHUNK - 1.0 - jnp.arange(_CHUNK))).astype(qkv.dtype)

    def step(state: Any, chunk: Any) -> tuple[Any, Any]:
        q, k, v = chunk
        scores = jnp.einsum("bshd,bthd->bhst", q, k) * inside
        out = jnp.einsum("bhst,bthd->bshd", scores, v)
        out = out + jnp.einsum("bshd,bhde,hs->bshe", q, state.astype(q.dtype), grown)
        added = jnp.einsum("bthd,bthe,ht->bhde", k, v, left).astype(jnp.float32)
        return state * (decay**_CHUNK)[:, None, None] + added, out

    start = jnp.zeros((batch, heads, width, width), jnp.float32)
    _, out = jax.lax.scan(step, start, chunks)
    return out.transpose(1, 0, 2, 3, 4).reshape(batch, length, heads, width)
