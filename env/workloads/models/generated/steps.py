"""Steps of generated models: gradients summed over parts of a batch, and optimisers."""

from collections.abc import Callable
from typing import Any

Gradient = Callable[..., tuple[Any, list[Any]]]


def cross_entropy(scores: Any, wanted: Any, product: bool) -> Any:
    """Returns the mean cross entropy of `[..., C]` scores and `[...]` class numbers, gathered or by one-hot rows."""
    import jax
    import jax.numpy as jnp

    likelihood = jax.nn.log_softmax(scores.astype(jnp.float32))
    if product:
        return -jnp.mean(jnp.sum(likelihood * jax.nn.one_hot(wanted, scores.shape[-1]), -1))
    return -jnp.mean(jnp.take_along_axis(likelihood, wanted[..., None], -1))


def accumulated(gradient: Gradient, parts: int) -> Gradient:
    """Returns a gradient that goes through the batch in a loop, a part at a time.

    Args:
      gradient: of parameters and arrays, those of whose first axis is the batch are cut.
      parts: number of parts; it divides the batch.
    """
    import jax

    def run(params: list[Any], *given: Any) -> tuple[Any, list[Any]]:
        cut = [leaf.reshape(parts, leaf.shape[0] // parts, *leaf.shape[1:]) for leaf in given]

        def step(total: Any, part: list[Any]) -> tuple[Any, None]:
            return jax.tree.map(lambda one, other: one + other, total, gradient(params, *part)), None

        first = jax.tree.map(jax.numpy.zeros_like, jax.eval_shape(gradient, params, *[leaf[0] for leaf in cut]))
        return jax.lax.scan(step, first, cut)[0]

    return run


def updated(gradient: Gradient, optimiser: str, params: list[Any]) -> tuple[Callable[..., Any], list[list[Any]]]:
    """Returns a training step of parameters, state and batch, and the optimiser's abstract state.

    Args:
      gradient: returns loss and gradients.
      optimiser: `sgd`, `momentum`, `adam` or `sign`.
      params: abstract parameters.
    """
    copies = {"sgd": 0, "momentum": 1, "sign": 1, "adam": 2}[optimiser]

    def step(params: list[Any], state: list[list[Any]], *batch: Any) -> Any:
        loss, gradients = gradient(params, *batch)
        moments = list(zip(*state, strict=True)) if state else [()] * len(params)
        moved = [_moved(optimiser, *one) for one in zip(params, gradients, moments, strict=True)]
        return (
            [value for value, _ in moved],
            [list(one) for one in zip(*(kept for _, kept in moved), strict=True)],
            loss,
        )

    return step, [list(params) for _ in range(copies)]


def _moved(optimiser: str, value: Any, slope: Any, moments: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """Returns a parameter and its moments after a step."""
    import jax.numpy as jnp

    if optimiser == "sgd":
        return value - 0.01 * slope, ()
    first = 0.9 * moments[0] + 0.1 * slope
    if optimiser == "momentum":
        return value - 0.01 * first, (first,)
    if optimiser == "sign":
        return value - 0.001 * jnp.sign(first), (first,)
    second = 0.99 * moments[1] + 0.01 * slope * slope
    return value - 0.001 * (first / (jnp.sqrt(second) + 1e-6) + 0.01 * value), (first, second)
