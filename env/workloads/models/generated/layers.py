"""Layers of generated networks, each a function of a `Scope` and of arrays whose last axis holds the features."""

import math
from typing import Any

from .scope import Scope


def activate(x: Any, name: str) -> Any:
    """Returns an activation, by name."""
    import jax

    if name == "square":
        return jax.nn.relu(x) ** 2
    return getattr(jax.nn, name)(x)


def dense(scope: Scope, x: Any, width: int, bias: bool = True) -> Any:
    """Returns `[..., width]`, a linear layer of `[..., D]`."""
    y = x @ scope.take(x.shape[-1], width)
    return y + scope.take(width) if bias else y


def look_up(table: Any, ids: Any, product: bool) -> Any:
    """Returns `[..., D]`, the rows of `[N, D]` with the numbers `ids`: gathered, or by a product with one-hot rows."""
    import jax

    return jax.nn.one_hot(ids, table.shape[0], dtype=table.dtype) @ table if product else table[ids]


def convolve(scope: Scope, x: Any, width: int, size: int, stride: int = 1, groups: int = 1) -> Any:
    """Returns a convolution of `[B, H, W, C]`; `groups` are reduced to a number that divides both widths."""
    import jax

    groups = math.gcd(groups, math.gcd(x.shape[-1], width))
    kernel = scope.take(size, size, x.shape[-1] // groups, width)
    return jax.lax.conv_general_dilated(
        x, kernel, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=groups
    )


def deconvolve(scope: Scope, x: Any, width: int, size: int) -> Any:
    """Returns a transposed convolution of `[B, H, W, C]` that doubles the side."""
    import jax

    return jax.lax.conv_transpose(
        x, scope.take(size, size, x.shape[-1], width), (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def normalise(scope: Scope, x: Any, name: str) -> Any:
    """Returns `x` normalised over the features (`layer`, `rms`), groups of them (`group`) or the batch (`batch`)."""
    import jax
    import jax.numpy as jnp

    scale = scope.take(x.shape[-1])
    wide = x.astype(jnp.float32)
    if name == "rms":
        return (wide * jax.lax.rsqrt(jnp.mean(wide**2, -1, keepdims=True) + 1e-6)).astype(x.dtype) * scale
    shift = scope.take(x.shape[-1])
    if name == "group":
        groups = math.gcd(8, x.shape[-1])
        split = wide.reshape(x.shape[0], -1, groups, x.shape[-1] // groups)
        axes: tuple[int, ...] = (1, 3)
    else:
        split, axes = wide, tuple(range(x.ndim - 1)) if name == "batch" else (-1,)
    mean = jnp.mean(split, axes, keepdims=True)
    variance = jnp.mean((split - mean) ** 2, axes, keepdims=True)
    normal = ((split - mean) * jax.lax.rsqrt(variance + 1e-6)).reshape(x.shape)
    return normal.astype(x.dtype) * scale + shift


def pool(x: Any, stride: int = 2) -> Any:
    """Returns the largest value of each window of `[B, H, W, C]`."""
    import jax
    import jax.numpy as jnp

    window = (1, stride, stride, 1)
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, window, "SAME")


def squeeze(scope: Scope, x: Any, name: str) -> Any:
    """Returns `[B, H, W, C]` with its channels weighed by what their means say."""
    import jax

    weights = activate(dense(scope, x.mean((1, 2)), max(8, x.shape[-1] // 8)), name)
    return x * jax.nn.sigmoid(dense(scope, weights, x.shape[-1]))[:, None, None]


def rotate(x: Any) -> Any:
    """Returns `[B, S, H, D]` with pairs of features turned by an angle that grows with the place."""
    import jax.numpy as jnp

    half = x.shape[-1] // 2
    angle = jnp.arange(x.shape[1])[:, None, None] * 10000.0 ** (-jnp.arange(half) / half)
    sine, cosine = jnp.sin(angle).astype(x.dtype), jnp.cos(angle).astype(x.dtype)
    one, other = x[..., :half], x[..., half:]
    return jnp.concatenate([one * cosine - other * sine, one * sine + other * cosine], -1)


def attend(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    """Returns `[B, S, H * D]` of queries `[B, S, H, D]`, keys and values `[B, R, G, D]`; `G` divides `H`."""
    import jax
    import jax.numpy as jnp

    batch, length, heads, size = q.shape
    q = q.reshape(batch, length, k.shape[2], heads // k.shape[2], size)
    scores = jnp.einsum("bsgnd,brgd->bgnsr", q, k).astype(jnp.float32) / math.sqrt(size)
    if mask is not None:
        scores = jnp.where(mask, scores, -1e9)
    weights = jax.nn.softmax(scores, -1).astype(q.dtype)
    return jnp.einsum("bgnsr,brgd->bsgnd", weights, v).reshape(batch, length, heads * size)


def attention(scope: Scope, x: Any, options: dict[str, Any], memory: Any = None, causal: bool = False) -> Any:
    """Returns `[B, S, D]`: attention of `x` to itself, or to `memory`, `[B, R, D]`."""
    import jax.numpy as jnp

    heads, width = options["heads"], x.shape[-1]
    size, shared = width // heads, math.gcd(heads, options.get("shared", 1))
    source = x if memory is None else memory
    q = dense(scope, x, width, bias=False).reshape(*x.shape[:2], heads, size)
    k, v = (
        dense(scope, source, width // shared, bias=False).reshape(*source.shape[:2], heads // shared, size)
        for _ in range(2)
    )
    if options["rotary"] and memory is None:
        q, k = rotate(q), rotate(k)
    mask = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool)) if causal else None
    return dense(scope, attend(q, k, v, mask), width)


def feed_forward(scope: Scope, x: Any, options: dict[str, Any]) -> Any:
    """Returns `[..., D]`: a layer of `hidden` times the width and one back, gated or not."""
    wide = options["hidden"] * x.shape[-1]
    y = activate(dense(scope, x, wide, bias=False), options["act"])
    if options["gated"]:
        y = y * dense(scope, x, wide, bias=False)
    return dense(scope, y, x.shape[-1])


def experts(scope: Scope, x: Any, options: dict[str, Any]) -> Any:
    """Returns `[B, S, D]`: a mixture of experts, all on every token (`everywhere`) or the chosen ones within bounds."""
    import jax
    import jax.numpy as jnp

    count, width = options["experts"], x.shape[-1]
    wide = 2 * width
    gates = jax.nn.softmax(dense(scope, x, count, bias=False).astype(jnp.float32), -1)
    first, second = scope.take(count, width, wide), scope.take(count, wide, width)
    if options["everywhere"]:
        y = activate(jnp.einsum("bsd,edh->bseh", x, first), options["act"])
        return jnp.einsum("bseh,ehd,bse->bsd", y, second, gates.astype(x.dtype))
    chosen, room = options["chosen"], max(1, 5 * options["chosen"] * x.shape[1] // (4 * count))
    sent = jnp.zeros((*x.shape[:2], count, room), jnp.float32)
    used = jnp.zeros((x.shape[0], 1, count), jnp.float32)
    left = gates
    for _ in range(chosen):
        taken = jax.nn.one_hot(jnp.argmax(left, -1), count)
        left = left * (1 - taken)
        place = jnp.sum((jnp.cumsum(taken, 1) - 1 + used) * taken, -1).astype(jnp.int32)
        used = used + taken.sum(1, keepdims=True)
        sent = sent + (gates * taken)[..., None] * jax.nn.one_hot(place, room)[:, :, None]
    mixed = sent.astype(x.dtype)
    y = jnp.einsum("bsec,bsd->ebcd", (mixed > 0).astype(x.dtype), x)
    y = jnp.einsum("ebch,ehd->ebcd", activate(jnp.einsum("ebcd,edh->ebch", y, first), options["act"]), second)
    return jnp.einsum("bsec,ebcd->bsd", mixed, y)


def cell(scope: Scope, x: Any, state: Any, name: str) -> Any:
    """Returns the next `[B, D]` state of a gated recurrence: two gates (`reset`), one (`minimal`) or a `highway`."""
    import jax
    import jax.numpy as jnp

    width = state.shape[-1]
    gates = jax.nn.sigmoid(dense(scope, jnp.concatenate([x, state], -1), width * (2 if name == "reset" else 1)))
    update = gates[:, :width]
    if name == "highway":
        return update * state + (1 - update) * jnp.tanh(dense(scope, x, width))
    kept = state * (gates[:, width:] if name == "reset" else update)
    return update * state + (1 - update) * jnp.tanh(dense(scope, jnp.concatenate([x, kept], -1), width))


def recurrence(scope: Scope, x: Any, width: int, name: str, unrolled: bool, backward: bool = False) -> Any:
    """Returns `[S, B, width]`: the states of a gated recurrence over `[S, B, D]`."""
    import jax
    import jax.numpy as jnp

    state = jnp.zeros((x.shape[1], width), x.dtype)

    def one(scope: Scope, x: Any, state: Any) -> Any:
        return cell(scope, x, state, name)

    values = [scope.take(*leaf.shape) for leaf in scope.inner(one, x[0], state)]

    def step(state: Any, x: Any) -> tuple[Any, Any]:
        following = one(Scope(scope.compute, scope.compute, values), x, state)
        return following, following

    return jax.lax.scan(step, state, x, reverse=backward, unroll=x.shape[0] if unrolled else 1)[1]


def linear_recurrence(scope: Scope, x: Any, name: str) -> Any:
    """Returns `[B, S, D]`: a gated recurrence without non-linearity, computed in logarithmic depth."""
    import jax
    import jax.numpy as jnp

    wide = x.shape[-1]
    decay = jax.nn.sigmoid(dense(scope, x, wide).astype(jnp.float32))
    value = (1 - decay) * dense(scope, x, wide).astype(jnp.float32)

    def join(one: Any, other: Any) -> Any:
        return one[0] * other[0], one[1] * other[0] + other[1]

    states = jax.lax.associative_scan(join, (decay, value), axis=1)[1]
    return dense(scope, states.astype(x.dtype) * activate(dense(scope, x, wide), name), wide)
