"""EfficientNet: the models of `keras`."""

from .common import Described
from .keras_application import keras_inference, keras_training


def efficientnet_b0_b32() -> Described:
    """EfficientNet-B0 inference, batch 32."""
    return keras_inference("EfficientNetB0", 32)


def efficientnet_v2_b0_train_b16() -> Described:
    """Training step of EfficientNetV2-B0, batch 16."""
    return keras_training("EfficientNetV2B0", 16)
