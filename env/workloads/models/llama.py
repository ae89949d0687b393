"""Llama-style decoders: the Flax models of `transformers` (Llama and its sparse-key relative Mistral)."""

from typing import Any

from .common import Described, array, cross_entropy, half, training_step, transformers_model
from .repeated import adam_step


def llama_prefill_b2_s1024() -> Described:
    """Prefill of a 12-layer Llama of width 1024 (TinyLlama's proportions): logits of the last token, batch 2 x 1024."""
    model, params = _model(12)

    def f(params: Any, ids: Any) -> Any:
        return model(ids, params=params, train=False).logits[:, -1]

    return f, (params, array((2, 1024), "int32"))


def llama_decode_b16() -> Described:
    """One-token decode of the same Llama, batch 16, keys and values of 1024 tokens in a donated cache."""
    return _decode(16, 1024)


def llama_decode_b4_s2048() -> Described:
    """One-token decode, batch 4, cache of 2048 tokens."""
    return _decode(4, 2048)


def llama_train_b2_s512() -> Described:
    """Training step of an 8-layer Llama, batch 2, length 512."""
    model, params = _model(8)

    def loss(params: Any, ids: Any, labels: Any) -> Any:
        return cross_entropy(model(ids, params=params, train=False).logits, labels)

    ids = array((2, 512), "int32")
    return training_step(loss, params, ids, ids)


def llama_24_train_b4_s256() -> Described:
    """Training step with Adam of a 24-layer Llama of width 1024, two batches of 2 x 256 whose losses are added."""
    model, params = _model(24)

    def loss(params: Any, ids: Any, labels: Any) -> Any:
        parts = zip(ids.reshape(2, 2, 256), labels.reshape(2, 2, 256), strict=True)
        return sum(cross_entropy(model(x, params=params, train=False).logits, y) for x, y in parts)

    ids = array((4, 256), "int32")
    return adam_step(loss, params, ids, ids)


def _model(layers: int, longest: int = 2048) -> tuple[Any, Any]:
    from transformers import FlaxLlamaForCausalLM, LlamaConfig

    config = LlamaConfig(
        vocab_size=32000,
        hidden_size=1024,
        intermediate_size=2816,
        num_hidden_layers=layers,
        num_attention_heads=16,
        num_key_value_heads=4,
        max_position_embeddings=longest,
    )
    return transformers_model(FlaxLlamaForCausalLM, config, (1, 8))


def _decode(batch: int, length: int) -> Described:
    import jax

    model, params = _model(12, length)
    cache = half(jax.eval_shape(lambda: model.init_cache(batch, length)))

    def step(params: Any, cache: Any, ids: Any, mask: Any, position: Any) -> Any:
        output = model(ids, mask, position, params=params, past_key_values=cache, train=False)
        return output.logits[:, -1].argmax(-1), output.past_key_values

    token = array((batch, 1), "int32")
    mask = array((batch, length), "int32")
    return jax.jit(step, donate_argnums=1), (params, cache, token, mask, token)
