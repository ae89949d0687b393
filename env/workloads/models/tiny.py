"""A small program for tests."""

from typing import Any

from .common import Described, array


def tiny() -> Described:
    """Twelve small layers with long skip connections: 24 MiB activations that do not all fit."""
    import jax

    def f(x: Any, ws: Any) -> Any:
        skips = []
        for w in ws[:6]:
            x = jax.nn.relu(x @ w)
            skips.append(x)
        for w, skip in zip(ws[6:], reversed(skips), strict=True):
            x = jax.nn.relu((x * skip) @ w)
        return x

    return f, (array((49152, 256)), [array((256, 256))] * 12)
