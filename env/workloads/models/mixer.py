"""MLP-Mixer, written after Tolstikhin et al., "MLP-Mixer: An all-MLP Architecture for Vision", 2021, appendix E."""

from collections.abc import Callable
from typing import Any

from .common import Described, array, cross_entropy, half, training_step
from .repeated import adam_step


def mixer_b64() -> Described:
    """Mixer-B/16 inference, batch 64."""
    model, params = _model(12)
    return model.apply, (params, array((64, 224, 224, 3)))


def mixer_train_b16() -> Described:
    """Training step of Mixer-B/16 with eight of its layers, batch 16."""
    return _training(16, 8)


def mixer_32_adam_b8() -> Described:
    """Training step with Adam of a Mixer-B/16 of 32 layers, batch 8."""
    return _training(8, 32, adam_step)


def _training(batch: int, layers: int, step: Callable[..., Described] = training_step) -> Described:
    model, params = _model(layers)

    def loss(params: Any, images: Any, labels: Any) -> Any:
        return cross_entropy(model.apply(params, images), labels)

    return step(loss, params, array((batch, 224, 224, 3)), array((batch,), "int32"))


def _model(layers: int) -> tuple[Any, Any]:
    import jax
    import jax.numpy as jnp
    from flax import linen as nn

    class Mlp(nn.Module):
        width: int

        @nn.compact
        def __call__(self, x: Any) -> Any:
            hidden = nn.gelu(nn.Dense(self.width, dtype=jnp.bfloat16)(x))
            return nn.Dense(x.shape[-1], dtype=jnp.bfloat16)(hidden)

    class Mixer(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            x = nn.Conv(768, (16, 16), strides=(16, 16), dtype=jnp.bfloat16)(x)
            x = x.reshape(x.shape[0], -1, 768)
            for _ in range(layers):
                y = nn.LayerNorm(dtype=jnp.bfloat16)(x)
                x = x + Mlp(384)(y.swapaxes(1, 2)).swapaxes(1, 2)
                x = x + Mlp(3072)(nn.LayerNorm(dtype=jnp.bfloat16)(x))
            return nn.Dense(1000, dtype=jnp.bfloat16)(nn.LayerNorm(dtype=jnp.bfloat16)(x).mean(1))

    model = Mixer()
    images = jnp.zeros((1, 224, 224, 3), jnp.bfloat16)
    return model, half(jax.eval_shape(model.init, jax.random.PRNGKey(0), images))
