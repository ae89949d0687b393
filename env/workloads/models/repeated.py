"""Layers in plain JAX. `jax.lax.scan` repeats them, their parameters stacked and one layer's code compiled; or they are
unrolled, each compiled by itself."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .common import Described, array, cross_entropy

Shapes = dict[str, tuple[int, ...]]


def parameters(shapes: Mapping[str, tuple[int, ...]], times: int = 0, dtype: str = "bfloat16") -> dict[str, Any]:
    """Returns abstract parameters by name; with `times` those of as many layers, stacked on the first axis."""
    stack = (times,) if times else ()
    return {name: array((*stack, *shape), dtype) for name, shape in shapes.items()}


def scanned(layer: Callable[..., Any], stacked: Any, x: Any, *given: Any, rematerialised: bool = False) -> Any:
    """Applies `x = layer(params, x, *given)` once for every layer of `stacked`, in a loop.

    Args:
      layer: keeps the shape of `x`.
      stacked: parameters with the layers on the first axis.
      x: input of the first layer.
      given: the same for every layer.
      rematerialised: compute the layer again for its gradient, instead of keeping what it computed.
    """
    import jax

    def run(x: Any, params: Any) -> tuple[Any, None]:
        return layer(params, x, *given), None

    return jax.lax.scan(jax.checkpoint(run) if rematerialised else run, x, stacked)[0]


def unrolled(layer: Callable[..., Any], layers: Sequence[Any], x: Any) -> Any:
    """Applies `x = layer(params, x)` once for the parameters of every layer, without a loop."""
    for params in layers:
        x = layer(params, x)
    return x


def rms(x: Any, scale: Any) -> Any:
    """Returns `x` over its root mean square along the last axis, computed in single precision."""
    import jax
    import jax.numpy as jnp

    y = x.astype(jnp.float32)
    return (y * jax.lax.rsqrt(jnp.mean(y * y, -1, keepdims=True) + 1e-6)).astype(x.dtype) * scale


def standardised(x: Any) -> Any:
    """Returns `x` with mean 0 and variance 1 along the last axis, computed in single precision."""
    import jax
    import jax.numpy as jnp

    y = x.astype(jnp.float32)
    y = y - jnp.mean(y, -1, keepdims=True)
    return (y * jax.lax.rsqrt(jnp.mean(y * y, -1, keepdims=True) + 1e-6)).astype(x.dtype)


def rotated(x: Any) -> Any:
    """Returns `[B, S, H, D]` queries or keys with rotary positions."""
    import jax.numpy as jnp

    length, width = x.shape[1], x.shape[3] // 2
    turns = jnp.arange(length)[:, None] * 10000.0 ** (-jnp.arange(width) / width)
    cos, sin = (f(turns)[:, None].astype(x.dtype) for f in (jnp.cos, jnp.sin))
    one, other = x[..., :width], x[..., width:]
    return jnp.concatenate([one * cos - other * sin, other * cos + one * sin], -1)


def attend(q: Any, k: Any, v: Any, causal: bool = False) -> Any:
    """Returns `[B, S, H * D]`: attention of `[B, S, H, D]` queries to `[B, T, G, D]` keys and values, G dividing H."""
    import jax
    import jax.numpy as jnp

    batch, length, heads, width = q.shape
    groups = k.shape[2]
    q = q.reshape(batch, length, groups, heads // groups, width)
    scores = jnp.einsum("bsghd,btgd->bghst", q, k).astype(jnp.float32) * width**-0.5
    if causal:
        scores = jnp.where(jnp.tri(length, k.shape[1], dtype=bool), scores, -1e9)
    weights = jax.nn.softmax(scores, -1).astype(v.dtype)
    return jnp.einsum("bghst,btgd->bsghd", weights, v).reshape(batch, length, heads * width)


def looked_up(table: Any, ids: Any, product: bool) -> Any:
    """Returns rows of a table, gathered, or by a product with one-hot rows, which the matrix unit does."""
    import jax

    return jax.nn.one_hot(ids, table.shape[0], dtype=table.dtype) @ table if product else table[ids]


def entropy(logits: Any, labels: Any, product: bool) -> Any:
    """Returns the mean cross entropy, gathered or by one-hot rows; see `common.cross_entropy`."""
    import jax
    import jax.numpy as jnp

    if not product:
        return cross_entropy(logits, labels)
    likelihood = jax.nn.log_softmax(logits.astype(jnp.float32))
    return -jnp.mean(jnp.sum(likelihood * jax.nn.one_hot(labels, logits.shape[-1]), -1))


def adam_step(loss: Callable[..., Any], params: Any, *batch: Any) -> Described:
    """Returns one step of Adam with single-precision moments, and its arguments; see `common.training_step`."""
    import jax
    import jax.numpy as jnp

    def moved(value: Any, slope: Any, first: Any, second: Any) -> tuple[Any, Any, Any]:
        slope = slope.astype(jnp.float32)
        first, second = 0.9 * first + 0.1 * slope, 0.99 * second + 0.01 * slope * slope
        change = 1e-3 * first / (jnp.sqrt(second) + 1e-8)
        return (value.astype(jnp.float32) - change).astype(value.dtype), first, second

    def step(params: Any, first: Any, second: Any, *batch: Any) -> Any:
        value, slopes = jax.value_and_grad(loss)(params, *batch)
        leaves, tree = jax.tree.flatten(params)
        others = (jax.tree.leaves(other) for other in (slopes, first, second))
        updated = [moved(*one) for one in zip(leaves, *others, strict=True)]
        return (*(jax.tree.unflatten(tree, [one[part] for one in updated]) for part in range(3)), value)

    moments = jax.tree.map(lambda leaf: array(leaf.shape, "float32"), params)
    return jax.jit(step, donate_argnums=(0, 1, 2)), (params, moments, moments, *batch)
