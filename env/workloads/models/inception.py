"""Inception and its relative Xception: the models of `keras`."""

from .common import Described
from .keras_application import keras_inference


def inception_v3_b64() -> Described:
    """InceptionV3 inference, batch 64, 299 x 299 pixels."""
    return keras_inference("InceptionV3", 64, 299)
