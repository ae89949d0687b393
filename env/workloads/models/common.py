"""Shared by the families: abstract arrays, half precision, losses and training steps."""

from collections.abc import Callable
from typing import Any

# The function to compile, and its arguments.
Described = tuple[Any, tuple[Any, ...]]


def array(shape: tuple[int, ...], dtype: str = "bfloat16") -> Any:
    """Returns an abstract array: shape and type without contents."""
    import jax
    import jax.numpy as jnp

    return jax.ShapeDtypeStruct(shape, jnp.dtype(dtype))


def half(tree: Any) -> Any:
    """Returns a tree of abstract arrays with bfloat16 in place of 32-bit floats."""
    import jax
    import jax.numpy as jnp

    def convert(leaf: Any) -> Any:
        return jax.ShapeDtypeStruct(leaf.shape, jnp.bfloat16 if leaf.dtype == jnp.float32 else leaf.dtype)

    return jax.tree.map(convert, tree)


def transformers_model(model_class: Any, config: Any, input_shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Returns a Flax model of `transformers` that computes in bfloat16, and its abstract bfloat16 parameters."""
    import jax
    import jax.numpy as jnp

    model = model_class(config, _do_init=False, dtype=jnp.bfloat16)
    return model, half(jax.eval_shape(lambda: model.init_weights(jax.random.PRNGKey(0), input_shape)))


def cross_entropy(logits: Any, labels: Any) -> Any:
    """Returns the mean cross entropy of `[..., C]` logits and `[...]` integer labels."""
    import jax
    import jax.numpy as jnp

    likelihood = jax.nn.log_softmax(logits.astype(jnp.float32))
    return -jnp.mean(jnp.take_along_axis(likelihood, labels[..., None], -1))


def squared_error(predicted: Any, wanted: Any) -> Any:
    """Returns the mean squared difference of two arrays."""
    import jax.numpy as jnp

    return jnp.mean((predicted.astype(jnp.float32) - wanted.astype(jnp.float32)) ** 2)


def training_step(loss: Callable[..., Any], params: Any, *batch: Any) -> Described:
    """Returns one step of gradient descent with momentum, and its arguments.

    Args:
      loss: takes parameters and a batch, returns a scalar.
      params: abstract parameters.
      batch: abstract inputs.
    """
    import jax
    import optax

    optimizer = optax.sgd(1e-2, momentum=0.9)

    def step(params: Any, state: Any, *batch: Any) -> Any:
        value, gradient = jax.value_and_grad(loss)(params, *batch)
        updates, state = optimizer.update(gradient, state, params)
        return optax.apply_updates(params, updates), state, value

    return step, (params, jax.eval_shape(optimizer.init, params), *batch)
