"""Generated networks on tables, graphs and rows: interactions of embeddings, messages along edges, wired layers."""

from typing import Any

from .architecture import Architecture
from .layers import activate, convolve, dense, feed_forward, normalise
from .scope import Scope


def interaction(scope: Scope, drawn: Architecture, numbers: Any, ids: Any) -> Any:
    """Returns `[B, 1]`: products of all pairs of embeddings and of the numbers' features, and layers on top."""
    import jax.numpy as jnp

    options, width = drawn.options, drawn.width
    x = numbers
    for wide in (4 * width, 2 * width, width):
        x = activate(dense(scope, x, wide), options["act"])
    looked = [scope.take(options["rows"], width)[ids[:, table]] for table in range(options["tables"])]
    joined = jnp.stack([x, *looked], 1)
    pairs = jnp.einsum("bid,bjd->bij", joined, joined)
    one, other = jnp.triu_indices(joined.shape[1], 1)
    x = jnp.concatenate([x, pairs[:, one, other]], -1)
    for _ in range(drawn.depth):
        x = activate(dense(scope, x, 8 * width), options["act"])
    return dense(scope, x, 1)


def graph(scope: Scope, drawn: Architecture, nodes: Any, senders: Any, receivers: Any) -> Any:
    """Returns `[N, width]`: rounds of messages along edges, each a layer on edges, a sum, and a layer on nodes."""
    import jax
    import jax.numpy as jnp

    options = drawn.options
    x = dense(scope, nodes, drawn.width)

    def round_of_messages(scope: Scope, x: Any) -> Any:
        message = jnp.concatenate([x[senders], x[receivers]], -1)
        message = dense(scope, activate(dense(scope, message, drawn.width), options["act"]), drawn.width)
        total = jax.ops.segment_sum(message, receivers, x.shape[0])
        y = dense(scope, jnp.concatenate([x, total], -1), drawn.width)
        return normalise(scope, x + activate(y, options["act"]), options["norm"])

    for _ in range(drawn.depth):
        x = scope.block(round_of_messages, x, rematerialised=drawn.rematerialised)
    return x


def wired(scope: Scope, drawn: Architecture, x: Any) -> Any:
    """Returns rows or images like the given ones: layers whose inputs are the results of drawn earlier ones."""
    options = drawn.options
    results = [x]
    for number, wires in enumerate(options["wires"]):
        y = results[wires[0] + 1]
        for place, wire in enumerate(wires[1:]):
            product = options["join"] == "product" or (options["join"] == "mixed" and (number + place) % 2)
            y = y * results[wire + 1] if product else y + results[wire + 1]
        if options["images"]:
            y = convolve(scope, y, drawn.width, 1 if number % 3 == 2 else 3)
        elif number % 4 == 3 and not options["linear"]:
            y = feed_forward(scope, y, options)
        else:
            y = dense(scope, y, drawn.width)
        results.append(activate(y, options["act"]))
    used = {wire for wires in options["wires"] for wire in wires}
    return sum(result for node, result in enumerate(results[1:]) if node not in used)
