"""Whisper: the Flax model of `transformers`."""

from typing import Any

from .common import Described, array, cross_entropy, training_step, transformers_model

_TINY = {"d_model": 384, "encoder_layers": 4, "decoder_layers": 4, "heads": 6}
_BASE = {"d_model": 512, "encoder_layers": 6, "decoder_layers": 6, "heads": 8}


def whisper_base_b8() -> Described:
    """Whisper-base inference, eight stretches of 30 s, 64 tokens out."""
    model, params = _model(**_BASE)

    def f(params: Any, features: Any, ids: Any) -> Any:
        return model(features, ids, params=params, train=False).logits

    return f, (params, array((8, 80, 3000)), array((8, 64), "int32"))


def whisper_tiny_train_b4() -> Described:
    """Training step of Whisper-tiny, four stretches of 30 s, 64 tokens out."""
    model, params = _model(**_TINY)

    def loss(params: Any, features: Any, ids: Any, labels: Any) -> Any:
        return cross_entropy(model(features, ids, params=params, train=False).logits, labels)

    ids = array((4, 64), "int32")
    return training_step(loss, params, array((4, 80, 3000)), ids, ids)


def whisper_medium_train_b1() -> Described:
    """Training step of Whisper-medium, 24 layers on each side, one stretch of 30 s, 64 tokens out."""
    model, params = _model(d_model=1024, encoder_layers=24, decoder_layers=24, heads=16)

    def loss(params: Any, features: Any, ids: Any, labels: Any) -> Any:
        return cross_entropy(model(features, ids, params=params, train=False).logits, labels)

    ids = array((1, 64), "int32")
    return training_step(loss, params, array((1, 80, 3000)), ids, ids)


def _model(d_model: int, encoder_layers: int, decoder_layers: int, heads: int) -> tuple[Any, Any]:
    from transformers import FlaxWhisperForConditionalGeneration, WhisperConfig

    config = WhisperConfig(
        d_model=d_model,
        encoder_layers=encoder_layers,
        decoder_layers=decoder_layers,
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_dim=4 * d_model,
        decoder_ffn_dim=4 * d_model,
        dropout=0.0,
    )
    return transformers_model(FlaxWhisperForConditionalGeneration, config, (1, 80, 3000))
