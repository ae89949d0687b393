"""Parameters of generated networks: their shapes are found by a dry run, and their values are handed out in order."""

from collections.abc import Callable
from typing import Any

Body = Callable[..., Any]


class Scope:
    """Hands out parameters in the order in which layers ask for them.

    Attributes:
      shapes: abstract parameters that were asked for, in a dry run.

    Args:
      stored: type of the parameters.
      compute: type that they are computed with.
      values: the parameters; None for a dry run.
    """

    def __init__(self, stored: str, compute: str, values: list[Any] | None = None) -> None:
        self.stored, self.compute = stored, compute
        self.shapes: list[Any] = []
        self._values = None if values is None else iter(values)

    def take(self, *shape: int) -> Any:
        """Returns the next parameter, in the type of the computation."""
        import jax.numpy as jnp

        return self._next(shape, jnp.dtype(self.stored)).astype(self.compute)

    def _next(self, shape: tuple[int, ...], dtype: Any) -> Any:
        import jax
        import jax.numpy as jnp

        if self._values is not None:
            return next(self._values)
        self.shapes.append(jax.ShapeDtypeStruct(shape, dtype))
        return jnp.zeros(shape, dtype)

    def inner(self, body: Body, *inputs: Any) -> list[Any]:
        """Returns the abstract parameters that `body(scope, *inputs)` asks for."""
        import jax

        dry = Scope(self.stored, self.compute)
        jax.eval_shape(lambda *given: body(dry, *given), *inputs)
        return dry.shapes

    def block(self, body: Body, *inputs: Any, rematerialised: bool = False) -> Any:
        """Returns `body(scope, *inputs)`, computed again for the gradients if `rematerialised`."""
        import jax

        if not rematerialised:
            return body(self, *inputs)
        values = [self._next(leaf.shape, leaf.dtype) for leaf in self.inner(body, *inputs)]

        def run(values: list[Any], *inputs: Any) -> Any:
            return body(Scope(self.stored, self.compute, values), *inputs)

        return jax.checkpoint(run)(values, *inputs)

    def repeat(self, body: Body, times: int, x: Any, *inputs: Any, rematerialised: bool, scanned: bool) -> Any:
        """Applies `x = body(scope, x, *inputs)` with fresh parameters each time, in a loop if `scanned`."""
        import jax

        if not scanned:
            for _ in range(times):
                x = self.block(body, x, *inputs, rematerialised=rematerialised)
            return x
        stacked = [self._next((times, *leaf.shape), leaf.dtype) for leaf in self.inner(body, x, *inputs)]

        def run(x: Any, values: list[Any]) -> tuple[Any, None]:
            return body(Scope(self.stored, self.compute, values), x, *inputs), None

        return jax.lax.scan(jax.checkpoint(run) if rematerialised else run, x, stacked)[0]
