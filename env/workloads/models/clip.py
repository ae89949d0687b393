"""CLIP: the Flax model of `transformers`."""

from typing import Any

from .common import Described, array, cross_entropy, training_step, transformers_model


def clip_train_b16() -> Described:
    """Training step of CLIP ViT-B/32 with six of its layers on each side, batch 16."""
    import jax.numpy as jnp

    model, params = _model(6)

    def loss(params: Any, ids: Any, images: Any, mask: Any) -> Any:
        output = model(ids, images, mask, params=params, train=False)
        matches = jnp.arange(ids.shape[0])
        return cross_entropy(output.logits_per_image, matches) + cross_entropy(output.logits_per_text, matches)

    return training_step(loss, params, *_pairs(16))


def _pairs(batch: int) -> tuple[Any, ...]:
    ids = array((batch, 77), "int32")
    return ids, array((batch, 3, 224, 224)), ids


def _model(layers: int) -> tuple[Any, Any]:
    from transformers import CLIPConfig, FlaxCLIPModel

    config = CLIPConfig(
        text_config={"num_hidden_layers": layers, "eos_token_id": 2}, vision_config={"num_hidden_layers": layers}
    )
    return transformers_model(FlaxCLIPModel, config, ((1, 77), (1, 224, 224, 3)))  # type: ignore[arg-type]
