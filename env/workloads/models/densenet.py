"""DenseNet: the models of `keras`. Every layer reads all layers before it, so values live long."""

from .common import Described
from .keras_application import keras_inference, keras_training


def densenet121_b32() -> Described:
    """DenseNet-121 inference, batch 32."""
    return keras_inference("DenseNet121", 32)


def densenet121_train_b8() -> Described:
    """Training step of DenseNet-121, batch 8."""
    return keras_training("DenseNet121", 8)
