"""MobileNet: version 1 from `dm-haiku`, versions 2 and 3 from `keras`."""

from typing import Any

from .common import Described, array, half
from .keras_application import keras_inference, keras_training


def mobilenet_v1_b128() -> Described:
    """MobileNetV1 inference, batch 128."""
    import haiku as hk
    import jax

    def forward(images: Any, is_training: bool) -> Any:
        return hk.nets.MobileNetV1(num_classes=1000)(images, is_training)

    model = hk.without_apply_rng(hk.transform_with_state(forward))
    images = array((128, 224, 224, 3))
    params, state = half(jax.eval_shape(lambda images: model.init(jax.random.PRNGKey(0), images, True), images))

    def f(params: Any, state: Any, images: Any) -> Any:
        return model.apply(params, state, images, False)[0]

    return f, (params, state, images)


def mobilenet_v2_b64() -> Described:
    """MobileNetV2 inference, batch 64."""
    return keras_inference("MobileNetV2", 64)


def mobilenet_v2_train_b32() -> Described:
    """Training step of MobileNetV2, batch 32."""
    return keras_training("MobileNetV2", 32)
