"""Recurrent networks of `dm-haiku`, unrolled by a scan that the compiler keeps as a loop."""

from typing import Any

from .common import Described, array, cross_entropy, half, training_step


def lstm_b128_s64() -> Described:
    """Inference with a word-level LSTM language model of two layers of 1024, batch 128, length 64."""
    model, params = _model("LSTM", 1024, 2)
    return model.apply, (params, array((64, 128), "int32"))


def lstm_train_b64_s32() -> Described:
    """Training step of the same, batch 64, length 32."""
    return _training("LSTM", 1024, 2, 64, 32)


def _training(core: str, width: int, layers: int, batch: int, length: int) -> Described:
    model, params = _model(core, width, layers)

    def loss(params: Any, ids: Any, labels: Any) -> Any:
        return cross_entropy(model.apply(params, ids), labels)

    ids = array((length, batch), "int32")
    return training_step(loss, params, ids, ids)


def _model(core: str, width: int, layers: int) -> tuple[Any, Any]:
    import haiku as hk
    import jax
    import jax.numpy as jnp

    vocabulary = 16384

    def forward(ids: Any) -> Any:
        stack = hk.DeepRNN([getattr(hk, core)(width) for _ in range(layers)])
        state = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), stack.initial_state(ids.shape[1]))
        x, _ = hk.dynamic_unroll(stack, hk.Embed(vocabulary, width)(ids), state)
        return hk.Linear(vocabulary)(x)

    model = hk.without_apply_rng(hk.transform(forward))
    return model, half(jax.eval_shape(model.init, jax.random.PRNGKey(0), jnp.zeros((4, 2), jnp.int32)))
