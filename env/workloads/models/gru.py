"""Gated recurrent units: a loop over time for each layer, after Cho et al. 2014, arXiv:1406.1078."""

from typing import Any

from .common import Described, array, cross_entropy, training_step
from .repeated import looked_up, parameters

_WIDTH, _VOCABULARY = 1024, 8192


def gru_b64_s64() -> Described:
    """Inference with a language model of two layers of 1024, batch 64, length 64."""
    return (lambda params, ids: _run(params, ids, False, product=True)), (_params(2), array((64, 64), "int32"))


def gru_train_b32_s64() -> Described:
    """Training step of the same, batch 32, length 64."""
    return _training(2, 32, 64, rematerialised=False)


def gru_remat_train_b64_s128() -> Described:
    """Training step of three layers, batch 64, length 128, every step computed again for its gradient."""
    return _training(3, 64, 128, rematerialised=True)


def _training(layers: int, batch: int, length: int, rematerialised: bool) -> Described:
    def loss(params: Any, ids: Any, labels: Any) -> Any:
        return cross_entropy(_run(params, ids, rematerialised), labels)

    ids = array((length, batch), "int32")
    return training_step(loss, _params(layers), ids, ids)


def _params(layers: int) -> Any:
    whole = {"table": (_VOCABULARY, _WIDTH), "last": (_WIDTH, _VOCABULARY)}
    shapes = {"x": (_WIDTH, 3 * _WIDTH), "h": (_WIDTH, 2 * _WIDTH), "reset": (_WIDTH, _WIDTH), "bias": (3 * _WIDTH,)}
    return parameters(whole) | {"layers": [parameters(shapes) for _ in range(layers)]}


def _run(params: Any, ids: Any, rematerialised: bool, product: bool = False) -> Any:
    x = looked_up(params["table"], ids, product)
    for layer in params["layers"]:
        x = _recurrence(layer, x, rematerialised)
    return x @ params["last"]


def _recurrence(params: Any, x: Any, rematerialised: bool) -> Any:
    import jax
    import jax.numpy as jnp

    def step(h: Any, given: Any) -> tuple[Any, Any]:
        update, reset, new = jnp.split(given, 3, -1)
        gates = jax.nn.sigmoid(h @ params["h"] + jnp.concatenate([update, reset], -1))
        update, reset = jnp.split(gates, 2, -1)
        h = update * h + (1 - update) * jnp.tanh(new + (reset * h) @ params["reset"])
        return h, h

    start = jnp.zeros((x.shape[1], _WIDTH), x.dtype)
    return jax.lax.scan(jax.checkpoint(step) if rematerialised else step, start, x @ params["x"] + params["bias"])[1]
