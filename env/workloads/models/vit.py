"""Vision transformer: the Flax model of `transformers`."""

from typing import Any

from .common import Described, array, transformers_model


def vit_b32() -> Described:
    """ViT-B/16 inference, batch 32."""
    return _inference(32)


def vit_b8() -> Described:
    """ViT-B/16 inference, batch 8."""
    return _inference(8)


def _inference(batch: int) -> Described:
    from transformers import FlaxViTForImageClassification, ViTConfig

    model, params = transformers_model(FlaxViTForImageClassification, ViTConfig(num_labels=1000), (1, 224, 224, 3))

    def f(params: Any, images: Any) -> Any:
        return model(images, params=params, train=False).logits

    return f, (params, array((batch, 3, 224, 224)))
