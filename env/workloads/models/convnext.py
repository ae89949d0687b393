"""ConvNeXt: the models of `keras`."""

from .common import Described
from .keras_application import keras_inference, keras_training


def convnext_tiny_b32() -> Described:
    """ConvNeXt-T inference, batch 32."""
    return keras_inference("ConvNeXtTiny", 32)


def convnext_tiny_train_b8() -> Described:
    """Training step of ConvNeXt-T, batch 8."""
    return keras_training("ConvNeXtTiny", 8)
