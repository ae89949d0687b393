"""Makes the function and the abstract arguments of a drawn architecture: the network, and what is done with it."""

from collections.abc import Callable
from typing import Any

from ..common import Described, array, squared_error
from .architecture import IMAGES, Architecture
from .images import autoencoder, classifier, u_shape
from .others import graph, interaction, wired
from .scope import Scope
from .sequences import cached, crossed, recurrent, tokens, towers
from .steps import accumulated, cross_entropy, updated

_BODIES: dict[str, Callable[..., Any]] = {
    "plain": classifier,
    "residual": classifier,
    "inverted": classifier,
    "hybrid": classifier,
    "ushape": u_shape,
    "autoencoder": autoencoder,
    "encoder": tokens,
    "decoder": tokens,
    "experts": tokens,
    "linear": tokens,
    "crossed": crossed,
    "cached": cached,
    "recurrent": recurrent,
    "towers": towers,
    "interaction": interaction,
    "graph": graph,
    "wired": wired,
}
# Their results are scores of classes; those of others are compared by the square of the difference.
_SCORES = ("plain", "residual", "inverted", "hybrid", "encoder", "decoder", "experts", "linear", "crossed", "recurrent")


def described(drawn: Architecture) -> Described:
    """Returns the function to compile and its abstract arguments."""
    import jax

    stored = "bfloat16" if drawn.dtype == "bfloat16" else "float32"
    compute = "float32" if drawn.dtype == "float32" else "bfloat16"
    inputs = _inputs(drawn, compute)

    def network(scope: Scope, *given: Any) -> Any:
        return _BODIES[drawn.kind](scope, drawn, *given)

    params = Scope(stored, compute).inner(network, *inputs)

    def apply(params: list[Any], *given: Any) -> Any:
        return network(Scope(stored, compute, params), *given)

    if drawn.kind == "cached":
        return jax.jit(apply, donate_argnums=1), (params, *inputs)
    if drawn.step == "inference":
        return apply, (params, *inputs)
    wanted = _wanted(drawn, jax.eval_shape(apply, params, *inputs))

    def loss(params: list[Any], wanted: Any, *given: Any) -> Any:
        result = apply(params, *given)
        if drawn.kind in _SCORES:
            return cross_entropy(result, wanted, drawn.options["product"])
        return squared_error(result, wanted)

    gradient = jax.value_and_grad(loss)
    if drawn.loop == "batches":
        gradient = accumulated(gradient, 4)
    if drawn.step == "gradient":
        return gradient, (params, wanted, *inputs)
    step, state = updated(gradient, drawn.optimiser, params)
    return jax.jit(step, donate_argnums=(0, 1)), (params, state, wanted, *inputs)


def _inputs(drawn: Architecture, compute: str) -> tuple[Any, ...]:
    batch, length, options = drawn.batch, drawn.length, drawn.options
    ids = array((batch, length), "int32")
    if drawn.kind in IMAGES:
        return (array((batch, length, length, 3), compute),)
    if drawn.kind in ("crossed", "towers"):
        return ids, ids
    if drawn.kind == "cached":
        groups = options["heads"] // (2 if options["shared"] == 2 and options["heads"] % 2 == 0 else 1)
        kept = array((batch, length, groups, drawn.width // options["heads"]), compute)
        return [(kept, kept)] * drawn.depth, array((batch,), "int32"), array((), "int32")
    if drawn.kind == "interaction":
        return array((batch, 16), compute), array((batch, options["tables"]), "int32")
    if drawn.kind == "graph":
        edges = array((batch * length * options["degree"],), "int32")
        return array((batch * length, 24), compute), edges, edges
    if drawn.kind == "wired":
        side = (length, length) if options["images"] else ()
        return (array((batch, *side, drawn.width), compute),)
    return (ids,)


def _wanted(drawn: Architecture, result: Any) -> Any:
    if drawn.kind in _SCORES:
        return array(result.shape[:-1], "int32")
    return array(result.shape, str(result.dtype))
