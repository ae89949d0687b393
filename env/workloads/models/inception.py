"""Inception and its relative Xception: the models of `keras`."""

from .common import Described
from .keras_application import keras_inference, keras_training


def inception_v3_b64() -> Described:
    """InceptionV3 inference, batch 64, 299 x 299 pixels."""
    return keras_inference("InceptionV3", 64, 299)


def xception_train_b8() -> Described:
    """Training step of Xception, batch 8."""
    return keras_training("Xception", 8)
