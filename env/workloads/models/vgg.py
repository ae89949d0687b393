"""VGG: the models of `keras`."""

from .common import Described
from .keras_application import keras_inference, keras_training


def vgg16_b32() -> Described:
    """VGG-16 inference, batch 32."""
    return keras_inference("VGG16", 32)


def vgg16_train_b16() -> Described:
    """Training step of VGG-16, batch 16."""
    return keras_training("VGG16", 16)
