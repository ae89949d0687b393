"""Conformer encoders of speech, under `lax.scan` and unrolled, after Gulati et al. 2020, arXiv:2005.08100."""

from typing import Any

from .common import Described, array, training_step
from .repeated import adam_step, attend, entropy, parameters, scanned, standardised, unrolled

_WIDTH, _HEADS, _TAPS, _PIECES = 768, 12, 31, 1024
# The parameters of a layer, and those beside the layers.
_SHAPES = {
    "up": (2, _WIDTH, 4 * _WIDTH),
    "down": (2, 4 * _WIDTH, _WIDTH),
    "qkv": (_WIDTH, 3, _HEADS, _WIDTH // _HEADS),
    "out": (_WIDTH, _WIDTH),
    "gate": (_WIDTH, 2 * _WIDTH),
    "taps": (_TAPS, 1, _WIDTH),
    "mix": (_WIDTH, _WIDTH),
}
_WHOLE = {"first": (3, 80, _WIDTH), "second": (3, _WIDTH, _WIDTH), "pieces": (_WIDTH, _PIECES)}


def conformer_scan_b8() -> Described:
    """Inference with twelve scanned layers, eight stretches of 16 s."""
    return (lambda params, features: _run(params, features, False)), (_params(12), array((8, 1600, 80)))


def conformer_scan_train_b4() -> Described:
    """Training step of eight scanned layers, four stretches of 16 s."""
    return _training(8, 4, rematerialised=False)


def conformer_scan_remat_train_b8() -> Described:
    """Training step of sixteen scanned layers, computed again for their gradients, eight stretches of 16 s."""
    return _training(16, 8, rematerialised=True)


def conformer_17_adam_b2() -> Described:
    """Training step with Adam of 17 unrolled layers, two stretches of 16 s."""

    def loss(params: Any, features: Any, labels: Any) -> Any:
        x = unrolled(_layer, params["layers"], _subsampled(params, features)) @ params["pieces"]
        return entropy(x, labels, product=True)

    params = parameters(_WHOLE) | {"layers": [parameters(_SHAPES) for _ in range(17)]}
    return adam_step(loss, params, array((2, 1600, 80)), array((2, 400), "int32"))


def _training(layers: int, batch: int, rematerialised: bool) -> Described:
    def loss(params: Any, features: Any, labels: Any) -> Any:
        return entropy(_run(params, features, rematerialised), labels, product=True)

    return training_step(loss, _params(layers), array((batch, 1600, 80)), array((batch, 400), "int32"))


def _params(layers: int) -> Any:
    return parameters(_WHOLE) | {"layers": parameters(_SHAPES, layers)}


def _convolved(x: Any, taps: Any, stride: int = 1) -> Any:
    """Returns `[B, S / stride, C]`, along the time axis; depthwise if `taps` is `[K, 1, C]`."""
    import jax

    groups = x.shape[2] // taps.shape[1]
    layout = ("NHC", "HIO", "NHC")
    return jax.lax.conv_general_dilated(
        x, taps, (stride,), "SAME", dimension_numbers=layout, feature_group_count=groups
    )


def _run(params: Any, features: Any, rematerialised: bool) -> Any:
    x = _subsampled(params, features)
    return scanned(_layer, params["layers"], x, rematerialised=rematerialised) @ params["pieces"]


def _subsampled(params: Any, features: Any) -> Any:
    import jax

    x = jax.nn.relu(_convolved(features, params["first"], 2))
    return jax.nn.relu(_convolved(x, params["second"], 2))


def _layer(params: Any, x: Any) -> Any:
    import jax
    import jax.numpy as jnp

    def half_step(x: Any, part: int) -> Any:
        return x + 0.5 * (jax.nn.silu(standardised(x) @ params["up"][part]) @ params["down"][part])

    x = half_step(x, 0)
    x = x + attend(*jnp.einsum("bsd,dkhe->kbshe", standardised(x), params["qkv"])) @ params["out"]
    one, other = jnp.split(standardised(x) @ params["gate"], 2, -1)
    y = _convolved(one * jax.nn.sigmoid(other), params["taps"])
    x = x + jax.nn.silu(standardised(y)) @ params["mix"]
    return standardised(half_step(x, 1))
