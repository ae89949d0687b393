"""wav2vec 2.0: the Flax model of `transformers`."""

from typing import Any

from .common import Described, array, half, training_step


def wav2vec2_train_b4() -> Described:
    """Training step of six layers of wav2vec 2.0 base (temporal classification), four stretches of 4 s."""
    import jax.numpy as jnp
    import optax

    model, params = _model(6)

    def loss(params: Any, sound: Any, mask: Any, labels: Any) -> Any:
        logits = model(sound, attention_mask=mask, params=params, train=False).logits.astype(jnp.float32)
        nowhere = jnp.zeros(logits.shape[:2])
        return jnp.mean(optax.ctc_loss(logits, nowhere, labels, jnp.zeros(labels.shape)))

    return training_step(loss, params, array((4, 64000)), array((4, 64000), "int32"), array((4, 64), "int32"))


def _model(layers: int) -> tuple[Any, Any]:
    import jax
    import jax.numpy as jnp
    from transformers import FlaxWav2Vec2ForCTC, Wav2Vec2Config

    config = Wav2Vec2Config(
        num_hidden_layers=layers,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        feat_proj_dropout=0.0,
        final_dropout=0.0,
        layerdrop=0.0,
        do_stable_layer_norm=True,
        feat_extract_norm="layer",
    )
    model = FlaxWav2Vec2ForCTC(config, _do_init=False, dtype=jnp.bfloat16)
    return model, half(jax.eval_shape(lambda: model.init_weights(jax.random.PRNGKey(0), (1, 16000))))
