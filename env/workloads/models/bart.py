"""BART: the Flax model of `transformers`."""

from typing import Any

from .common import Described, array, cross_entropy, training_step, transformers_model
from .repeated import adam_step


def bart_train_b8() -> Described:
    """Training step of BART-base with four of six layers on each side, batch 8, 256 tokens in and 128 out."""
    model, params = _model(4)

    def loss(params: Any, ids: Any, given: Any, labels: Any) -> Any:
        return cross_entropy(model(ids, decoder_input_ids=given, params=params, train=False).logits, labels)

    ids = array((8, 128), "int32")
    return training_step(loss, params, array((8, 256), "int32"), ids, ids)


def bart_large_adam_b4() -> Described:
    """Training step with Adam of BART-large, twelve layers on each side, batch 4, 256 tokens in and 128 out."""
    from transformers import BartConfig, FlaxBartForConditionalGeneration

    config = BartConfig(dropout=0.0, attention_dropout=0.0, activation_dropout=0.0)
    model, params = transformers_model(FlaxBartForConditionalGeneration, config, (1, 8))

    def loss(params: Any, ids: Any, given: Any, labels: Any) -> Any:
        return cross_entropy(model(ids, decoder_input_ids=given, params=params, train=False).logits, labels)

    tokens, labels = array((4, 256), "int32"), array((4, 128), "int32")
    return adam_step(loss, params, tokens, labels, labels)


def _model(layers: int) -> tuple[Any, Any]:
    from transformers import BartConfig, FlaxBartForConditionalGeneration

    config = BartConfig(
        d_model=768,
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_attention_heads=12,
        decoder_attention_heads=12,
        encoder_ffn_dim=3072,
        decoder_ffn_dim=3072,
        dropout=0.0,
    )
    return transformers_model(FlaxBartForConditionalGeneration, config, (1, 8))
