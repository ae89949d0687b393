"""MLP-Mixer under `lax.scan`, in plain JAX, after Tolstikhin et al. 2021, arXiv:2105.01601."""

from typing import Any

from .common import Described, array, cross_entropy, training_step
from .repeated import parameters, scanned, standardised

_WIDTH, _TOKENS, _PATCH = 768, 196, 16


def mixer_scan_b64() -> Described:
    """Mixer-B/16 inference, scanned, batch 64."""
    return (lambda params, images: _run(params, images, False)), (_params(12), array((64, 224, 224, 3)))


def mixer_scan_remat_train_b32() -> Described:
    """Training step of Mixer-B/16, scanned and computed again for the gradients, batch 32."""

    def loss(params: Any, images: Any, labels: Any) -> Any:
        return cross_entropy(_run(params, images, True), labels)

    return training_step(loss, _params(12), array((32, 224, 224, 3)), array((32,), "int32"))


def _params(layers: int) -> Any:
    shapes = {"in": (_TOKENS, 384), "back": (384, _TOKENS), "up": (_WIDTH, 3072), "down": (3072, _WIDTH)}
    whole = {"patch": (_PATCH * _PATCH * 3, _WIDTH), "classes": (_WIDTH, 1000)}
    return parameters(whole) | {"layers": parameters(shapes, layers)}


def _run(params: Any, images: Any, rematerialised: bool) -> Any:
    batch, side = images.shape[0], 224 // _PATCH
    patches = images.reshape(batch, side, _PATCH, side, _PATCH, 3).swapaxes(2, 3).reshape(batch, side * side, -1)
    x = scanned(_layer, params["layers"], patches @ params["patch"], rematerialised=rematerialised)
    return standardised(x).mean(1) @ params["classes"]


def _layer(params: Any, x: Any) -> Any:
    import jax

    y = standardised(x).swapaxes(1, 2)
    x = x + (jax.nn.gelu(y @ params["in"]) @ params["back"]).swapaxes(1, 2)
    return x + jax.nn.gelu(standardised(x) @ params["up"]) @ params["down"]
