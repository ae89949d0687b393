"""Image models of `keras.applications` with the JAX backend of Keras, for the families that take them from there."""

import os
from typing import Any

from .common import Described, array, cross_entropy, training_step


def keras_inference(name: str, batch: int, side: int = 224) -> Described:
    """Returns inference with `keras.applications.<name>` on a batch of square images.

    Args:
      name: class or function of `keras.applications`.
      batch: number of images.
      side: pixels of an edge.
    """
    model, trained, other = _model(name, side)

    def f(trained: Any, other: Any, images: Any) -> Any:
        outputs, _ = model.stateless_call(trained, other, images, training=False)
        return outputs

    return f, (trained, other, array((batch, side, side, 3)))


def keras_training(name: str, batch: int, side: int = 224) -> Described:
    """Returns a training step of `keras.applications.<name>`: batch statistics, as in training, but no dropout."""
    model, trained, other = _model(name, side)

    def loss(trained: Any, other: Any, images: Any, labels: Any) -> Any:
        outputs, _ = model.stateless_call(trained, other, images, training=True)
        return cross_entropy(outputs, labels)

    return training_step(loss, trained, other, array((batch, side, side, 3)), array((batch,), "int32"))


def _model(name: str, side: int) -> tuple[Any, list[Any], list[Any]]:
    """Returns the model and its abstract trainable and other variables; logits instead of probabilities."""
    os.environ["KERAS_BACKEND"] = "jax"
    import jax
    import keras

    keras.config.set_dtype_policy("bfloat16")
    built: list[Any] = []

    def build() -> None:
        make = getattr(keras.applications, name)
        built.append(make(weights=None, input_shape=(side, side, 3), classifier_activation=None))

    jax.eval_shape(build)  # the variables' values are never made

    def abstract(variables: Any) -> list[Any]:
        return [array(tuple(variable.shape), variable.dtype) for variable in variables]

    return built[0], abstract(built[0].trainable_variables), abstract(built[0].non_trainable_variables)
