"""Generated networks on images, `[B, H, W, C]`."""

from typing import Any

from .architecture import Architecture
from .layers import (
    activate,
    attention,
    convolve,
    deconvolve,
    dense,
    feed_forward,
    normalise,
    pool,
    squeeze,
)
from .scope import Scope


def classifier(scope: Scope, drawn: Architecture, images: Any) -> Any:
    """Returns `[B, classes]`: stages of `plain`, `residual` or `inverted` blocks; attention on top in a `hybrid`."""
    options = drawn.options
    x, width = _stem(scope, drawn, images), drawn.width
    for stage in range(options["stages"]):
        for block in range(options["blocks"]):
            stride = 2 if stage and not block else 1

            def body(scope: Scope, x: Any, width: int = width, stride: int = stride) -> Any:
                return _BLOCKS[drawn.kind](scope, drawn, x, width, stride)

            x = scope.block(body, x, rematerialised=drawn.rematerialised)
        width *= 2
    if drawn.kind == "hybrid":
        x = convolve(scope, x, width, 2, 2)
        x = x.reshape(x.shape[0], -1, width)
        x = scope.repeat(
            lambda scope, x: _attended(scope, drawn, x),
            drawn.depth,
            x,
            rematerialised=drawn.rematerialised,
            scanned=drawn.loop == "layers",
        )
        return dense(scope, x.mean(1), options["classes"])
    return dense(scope, x.mean((1, 2)), options["classes"])


def u_shape(scope: Scope, drawn: Architecture, images: Any) -> Any:
    """Returns images like the given ones: stages down, stages up, and a skip connection at every block."""
    import jax.numpy as jnp

    options = drawn.options
    x, width, skips = _stem(scope, drawn, images), drawn.width, []
    for stage in range(options["stages"]):
        for _ in range(options["blocks"]):
            x = scope.block(_residual_of(drawn, width), x, rematerialised=drawn.rematerialised)
            skips.append(x)
        if stage + 1 < options["stages"]:
            x, width = convolve(scope, x, width, 3, 2), 2 * width
    if options["attention"]:
        flat = x.reshape(x.shape[0], -1, width)
        x = _attended(scope, drawn, flat).reshape(x.shape)
    for stage in reversed(range(options["stages"])):
        for _ in range(options["blocks"]):
            x = jnp.concatenate([x, skips.pop()], -1)
            x = scope.block(_residual_of(drawn, width), x, rematerialised=drawn.rematerialised)
        if stage:
            width //= 2
            x = deconvolve(scope, x, width, 3)
    for _ in range(options["patch"].bit_length() - 1):
        x = deconvolve(scope, x, width, 3)
    return convolve(scope, x, images.shape[-1], 3)


def autoencoder(scope: Scope, drawn: Architecture, images: Any) -> Any:
    """Returns images like the given ones, by way of a small code and without skip connections past it."""
    options = drawn.options
    x, width = _stem(scope, drawn, images), drawn.width
    for _ in range(options["stages"]):
        for _ in range(options["blocks"]):
            x = scope.block(_plain_of(drawn, width), x, rematerialised=drawn.rematerialised)
        x, width = convolve(scope, x, 2 * width, 3, 2), 2 * width
    x = dense(scope, dense(scope, x, 16), width)
    for _ in range(options["stages"]):
        width //= 2
        x = deconvolve(scope, x, width, 4)
        for _ in range(options["blocks"]):
            x = scope.block(_plain_of(drawn, width), x, rematerialised=drawn.rematerialised)
    for _ in range(options["patch"].bit_length() - 1):
        x = deconvolve(scope, x, width, 3)
    return convolve(scope, x, images.shape[-1], 3)


def _stem(scope: Scope, drawn: Architecture, images: Any) -> Any:
    patch = drawn.options["patch"]
    return convolve(scope, images, drawn.width, max(3, patch), patch)


def _plain_of(drawn: Architecture, width: int) -> Any:
    return lambda scope, x: _plain(scope, drawn, x, width, 1)


def _residual_of(drawn: Architecture, width: int) -> Any:
    return lambda scope, x: _residual(scope, drawn, x, width, 1)


def _plain(scope: Scope, drawn: Architecture, x: Any, width: int, stride: int) -> Any:
    options = drawn.options
    x = convolve(scope, x, width, options["kernel"])
    x = activate(normalise(scope, x, options["norm"]) if options["squeeze"] else x, options["act"])
    return pool(x) if stride > 1 else x


def _residual(scope: Scope, drawn: Architecture, x: Any, width: int, stride: int) -> Any:
    options, kernel = drawn.options, drawn.options["kernel"]
    short = x
    if stride > 1 or x.shape[-1] != width:
        short = convolve(scope, x, width, 1, stride)
    inner = width // 2 if options["bottleneck"] else width
    y = convolve(scope, x, inner, 1) if options["bottleneck"] else x
    y = activate(normalise(scope, y, options["norm"]), options["act"])
    y = convolve(scope, y, inner, kernel, stride, options["groups"])
    y = activate(normalise(scope, y, options["norm"]), options["act"])
    y = convolve(scope, y, width, 1 if options["bottleneck"] else kernel)
    if options["attention"] and options["squeeze"]:
        y = squeeze(scope, y, options["act"])
    return short + y


def _inverted(scope: Scope, drawn: Architecture, x: Any, width: int, stride: int) -> Any:
    options = drawn.options
    wide = x.shape[-1] * options["expansion"]
    y = activate(normalise(scope, convolve(scope, x, wide, 1), options["norm"]), options["act"])
    y = convolve(scope, y, wide, options["kernel"], stride, groups=wide)
    y = activate(normalise(scope, y, options["norm"]), options["act"])
    if options["squeeze"]:
        y = squeeze(scope, y, options["act"])
    y = convolve(scope, y, width, 1)
    return x + y if x.shape == y.shape else y


def _attended(scope: Scope, drawn: Architecture, x: Any) -> Any:
    x = x + attention(scope, normalise(scope, x, "layer"), drawn.options)
    return x + feed_forward(scope, normalise(scope, x, "layer"), drawn.options)


_BLOCKS = {"plain": _plain, "residual": _residual, "inverted": _inverted, "hybrid": _residual}
