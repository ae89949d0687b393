"""T5 under `lax.scan`, in plain JAX, after Raffel et al. 2020, arXiv:1910.10683."""

from typing import Any

from .common import Described, array, cross_entropy, training_step
from .repeated import Shapes, attend, parameters, rms, scanned

_VOCABULARY = 32128


def t5_scan_b16() -> Described:
    """Inference with T5-small, scanned, batch 16, 512 tokens in and 64 out."""
    given = array((16, 512), "int32"), array((16, 64), "int32")
    return (lambda params, ids, out: _run(params, ids, out, False)[:, -1]), (_params(6, 512, 8, 2048), *given)


def t5_scan_train_b8() -> Described:
    """Training step of T5-small, scanned, batch 8, 256 tokens in and 128 out."""
    return _training(6, 512, 8, 2048, batch=8, rematerialised=False)


def t5_scan_remat_train_b16() -> Described:
    """Training step of T5-base, scanned and computed again for the gradients, batch 16, 256 tokens in and 128 out."""
    return _training(12, 768, 12, 3072, batch=16, rematerialised=True)


def _training(layers: int, width: int, heads: int, hidden: int, *, batch: int, rematerialised: bool) -> Described:
    def loss(params: Any, ids: Any, given: Any, labels: Any) -> Any:
        return cross_entropy(_run(params, ids, given, rematerialised), labels)

    out = array((batch, 128), "int32")
    return training_step(loss, _params(layers, width, heads, hidden), array((batch, 256), "int32"), out, out)


def _params(layers: int, width: int, heads: int, hidden: int) -> Any:
    def attention(name: str) -> Shapes:
        head = (width, heads, width // heads)
        return {f"{name}_before": (width,), f"{name}_q": head, f"{name}_k": head, f"{name}_v": head} | {
            f"{name}_out": (width, width)
        }

    wide = {"between": (width,), "up": (width, hidden), "down": (hidden, width)}
    return {
        "table": array((_VOCABULARY, width)),
        "encoder": parameters(attention("self") | wide, layers),
        "decoder": parameters(attention("self") | attention("cross") | wide, layers),
        "last": parameters({"encoder": (width,), "decoder": (width,)}),
    }


def _run(params: Any, ids: Any, given: Any, rematerialised: bool) -> Any:
    table, last = params["table"], params["last"]
    memory = scanned(_encode, params["encoder"], table[ids], rematerialised=rematerialised)
    memory = rms(memory, last["encoder"])
    x = scanned(_decode, params["decoder"], table[given], memory, rematerialised=rematerialised)
    return rms(x, last["decoder"]) @ table.T


def _attention(params: Any, name: str, x: Any, memory: Any = None, causal: bool = False) -> Any:
    import jax.numpy as jnp

    y = rms(x, params[f"{name}_before"])
    seen = y if memory is None else memory
    q = jnp.einsum("bsd,dhe->bshe", y, params[f"{name}_q"])
    k, v = (jnp.einsum("bsd,dhe->bshe", seen, params[f"{name}_{which}"]) for which in "kv")
    return x + attend(q, k, v, causal) @ params[f"{name}_out"]


def _wide(params: Any, x: Any) -> Any:
    import jax

    return x + jax.nn.relu(rms(x, params["between"]) @ params["up"]) @ params["down"]


def _encode(params: Any, x: Any) -> Any:
    return _wide(params, _attention(params, "self", x))


def _decode(params: Any, x: Any, memory: Any) -> Any:
    x = _attention(params, "self", x, causal=True)
    return _wide(params, _attention(params, "cross", x, memory))
