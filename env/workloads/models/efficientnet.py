"""EfficientNet: the models of `keras`."""

from .common import Described
from .keras_application import keras_inference


def efficientnet_b0_b32() -> Described:
    """EfficientNet-B0 inference, batch 32."""
    return keras_inference("EfficientNetB0", 32)
