"""Generated networks on sequences of tokens, `[B, S]`."""

from typing import Any

from .architecture import Architecture
from .layers import (
    attend,
    attention,
    dense,
    experts,
    feed_forward,
    linear_recurrence,
    look_up,
    normalise,
    recurrence,
)
from .scope import Scope


def tokens(scope: Scope, drawn: Architecture, ids: Any) -> Any:
    """Returns `[B, S, vocabulary]`: layers of attention (`encoder`, `decoder`), of experts or of linear recurrences."""
    x, table = _embedded(scope, drawn, ids)
    x = scope.repeat(_layer_of(drawn), drawn.depth, x, **_ways(drawn))
    return _logits(scope, drawn, x, table)


def crossed(scope: Scope, drawn: Architecture, source: Any, ids: Any) -> Any:
    """Returns `[B, S, vocabulary]`: a decoder that attends to the result of an encoder."""
    memory, table = _embedded(scope, drawn, source)
    memory = scope.repeat(_layer_of(drawn), drawn.depth, memory, **_ways(drawn))

    def layer(scope: Scope, x: Any, memory: Any) -> Any:
        norm = drawn.options["norm"]
        x = x + attention(scope, normalise(scope, x, norm), drawn.options, causal=True)
        x = x + attention(scope, normalise(scope, x, norm), drawn.options, memory)
        return x + feed_forward(scope, normalise(scope, x, norm), drawn.options)

    x = scope.repeat(layer, drawn.depth, look_up(table, ids, drawn.options["product"]), memory, **_ways(drawn))
    return _logits(scope, drawn, x, table)


def cached(scope: Scope, drawn: Architecture, caches: list[tuple[Any, Any]], ids: Any, place: Any) -> Any:
    """Returns `[B, vocabulary]` and new caches: a step by one token, with the keys and values of those before."""
    import jax
    import jax.numpy as jnp

    options, heads = drawn.options, drawn.options["heads"]
    x, table = _embedded(scope, drawn, ids[:, None])
    kept = []
    for keys, values in caches:
        y = normalise(scope, x, options["norm"])
        q = dense(scope, y, drawn.width, bias=False).reshape(drawn.batch, 1, heads, -1)
        k, v = (dense(scope, y, keys.shape[2] * keys.shape[3], bias=False) for _ in range(2))
        keys, values = (
            jax.lax.dynamic_update_slice(cache, new.reshape(drawn.batch, 1, *cache.shape[2:]), (0, place, 0, 0))
            for cache, new in ((keys, k), (values, v))
        )
        mask = jnp.arange(drawn.length) <= place
        x = x + dense(scope, attend(q, keys, values, mask), drawn.width)
        x = x + feed_forward(scope, normalise(scope, x, options["norm"]), options)
        kept.append((keys, values))
    return _logits(scope, drawn, x, table)[:, 0], kept


def recurrent(scope: Scope, drawn: Architecture, ids: Any) -> Any:
    """Returns `[B, S, vocabulary / 4]`: layers of gated recurrences, of one direction or both."""
    import jax.numpy as jnp

    options = drawn.options
    x = look_up(scope.take(options["vocabulary"] // 4, drawn.width), ids.T, options["product"])
    for _ in range(drawn.depth):
        y = recurrence(scope, x, drawn.width, options["cell"], options["unrolled"])
        if options["both"]:
            back = recurrence(scope, x, drawn.width, options["cell"], options["unrolled"], backward=True)
            y = dense(scope, jnp.concatenate([y, back], -1), drawn.width)
        x = normalise(scope, x + y, options["norm"]) if options["tied"] else y
    return dense(scope, x.swapaxes(0, 1), options["vocabulary"] // 4)


def towers(scope: Scope, drawn: Architecture, one: Any, other: Any) -> Any:
    """Returns `[B, B]`: how alike the results of two encoders are."""
    import jax.numpy as jnp

    results = []
    for ids in (one, other):
        x, _ = _embedded(scope, drawn, ids)
        x = scope.repeat(_layer_of(drawn), drawn.depth, x, **_ways(drawn))
        results.append(dense(scope, x.mean(1), drawn.width // 2))
    return jnp.einsum("ad,bd->ab", *results)


def _ways(drawn: Architecture) -> dict[str, bool]:
    return {"rematerialised": drawn.rematerialised, "scanned": drawn.loop == "layers"}


def _embedded(scope: Scope, drawn: Architecture, ids: Any) -> tuple[Any, Any]:
    table = scope.take(drawn.options["vocabulary"], drawn.width)
    x = look_up(table, ids, drawn.options["product"])
    return (x if drawn.options["rotary"] else x + scope.take(ids.shape[1], drawn.width)), table


def _logits(scope: Scope, drawn: Architecture, x: Any, table: Any) -> Any:
    x = normalise(scope, x, drawn.options["norm"])
    return x @ table.T if drawn.options["tied"] else dense(scope, x, drawn.options["vocabulary"], bias=False)


def _layer_of(drawn: Architecture) -> Any:
    options, norm = drawn.options, drawn.options["norm"]

    def mix(scope: Scope, x: Any) -> Any:
        if drawn.kind == "linear":
            return linear_recurrence(scope, x, options["act"])
        return attention(scope, x, options, causal=options["causal"] and drawn.kind != "crossed")

    def widen(scope: Scope, x: Any) -> Any:
        return experts(scope, x, options) if drawn.kind == "experts" else feed_forward(scope, x, options)

    def layer(scope: Scope, x: Any) -> Any:
        for part in (mix, widen):
            if options["after"]:
                x = normalise(scope, x + part(scope, x), norm)
            else:
                x = x + part(scope, normalise(scope, x, norm))
        return x

    return layer
