"""The training step that Keras compiles in `fit`, for `tune`.

mallocmuzero tune examples.keras_fit:step --target v5e --minutes 12 --workers 2 -o options.flags

Then train as before, with the options in the environment of the machine with the TPU:

LIBTPU_INIT_ARGS="$LIBTPU_INIT_ARGS --flagfile=options.flags" python examples/keras_fit.py
"""

import os

os.environ["KERAS_BACKEND"] = "jax"

import jax
import keras
import numpy as np

BATCH, FRAMES, SIDE = 16, 16, 64


def make_model():
    model = keras.Sequential(
        [
            keras.layers.Input((FRAMES, SIDE, SIDE, 3)),
            keras.layers.ConvLSTM2D(32, 3, padding="same", return_sequences=True),
            keras.layers.BatchNormalization(),
            keras.layers.ConvLSTM2D(32, 3, padding="same"),
            keras.layers.Conv2D(3, 3, padding="same"),
        ]
    )
    model.compile(optimizer="adamw", loss="mse", metrics=["mae"])
    return model


def data(batches):
    films = np.zeros((batches * BATCH, FRAMES, SIDE, SIDE, 3), np.float32)
    return films, films[:, -1]


def train_step(model, x, y):
    """The step that `fit` compiles, and its arguments."""
    model.optimizer.build(model.trainable_variables)
    parts = (
        model.trainable_variables,
        model.non_trainable_variables,
        model.optimizer.variables,
        model.metrics_variables,
    )
    state = tuple([jax.ShapeDtypeStruct(v.shape, v.dtype) for v in part] for part in parts)
    return jax.jit(model.train_step, donate_argnums=0), (state, (x, y))


def step():
    model = make_model()
    x, y = data(1)
    model.evaluate(x[:1], y[:1], verbose=0)  # makes the variables of the metrics
    return train_step(model, x, y)


if __name__ == "__main__":
    make_model().fit(*data(4), batch_size=BATCH, epochs=1)
