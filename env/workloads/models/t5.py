"""T5: the Flax model of `transformers`."""

from typing import Any

from .common import Described, array, cross_entropy, training_step, transformers_model


def t5_small_train_b8() -> Described:
    """Training step of T5-small, batch 8, 256 tokens in and 128 out."""
    model, params = _model()
    tokens, labels = array((8, 256), "int32"), array((8, 128), "int32")

    def loss(params: Any, ids: Any, given: Any, labels: Any) -> Any:
        return cross_entropy(model(ids, decoder_input_ids=given, params=params, train=False).logits, labels)

    return training_step(loss, params, tokens, labels, labels)


def t5_base_b8_s512() -> Described:
    """T5-base inference, batch 8, 512 tokens in and 64 out."""
    model, params = _model(d_model=768, d_ff=3072, num_layers=12, num_heads=12)

    def f(params: Any, ids: Any, given: Any) -> Any:
        return model(ids, decoder_input_ids=given, params=params, train=False).logits

    return f, (params, array((8, 512), "int32"), array((8, 64), "int32"))


def t5_large_train_b4() -> Described:
    """Training step of T5-large, 24 layers on each side, batch 4, 256 tokens in and 64 out."""
    model, params = _model(d_model=1024, d_ff=4096, num_layers=24, num_heads=16)
    tokens, labels = array((4, 256), "int32"), array((4, 64), "int32")

    def loss(params: Any, ids: Any, given: Any, labels: Any) -> Any:
        return cross_entropy(model(ids, decoder_input_ids=given, params=params, train=False).logits, labels)

    return training_step(loss, params, tokens, labels, labels)


def _model(**sizes: Any) -> tuple[Any, Any]:
    from transformers import FlaxT5ForConditionalGeneration, T5Config
    from transformers.models.t5 import modeling_flax_t5

    modeling_flax_t5.jnp = _OlderNumpy()

    config = T5Config(dropout_rate=0.0, decoder_start_token_id=0, **sizes)
    return transformers_model(FlaxT5ForConditionalGeneration, config, (1, 8))


class _OlderNumpy:
    """`jax.numpy` whose `clip` still takes the names of its bounds that this model's code uses."""

    def __getattr__(self, name: str) -> Any:
        import jax.numpy as jnp

        return getattr(jnp, name)

    def clip(self, x: Any, a_min: Any = None, a_max: Any = None) -> Any:
        import jax.numpy as jnp

        return jnp.clip(x, a_min, a_max)
