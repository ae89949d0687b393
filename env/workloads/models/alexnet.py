"""AlexNet, written after Krizhevsky, "One weird trick for parallelizing convolutional neural networks", 2014: the
variant on one device, without dropout."""

from typing import Any

from .common import Described, array, cross_entropy, half, training_step

# Features, edge of the kernel, stride, whether pooling follows.
_CONVOLUTIONS = ((64, 11, 4, True), (192, 5, 1, True), (384, 3, 1, False), (256, 3, 1, False), (256, 3, 1, True))


def alexnet_b256() -> Described:
    """Inference, batch 256."""
    model, params = _model()
    return model.apply, (params, array((256, 224, 224, 3)))


def alexnet_train_b128() -> Described:
    """Training step, batch 128."""
    model, params = _model()

    def loss(params: Any, images: Any, labels: Any) -> Any:
        return cross_entropy(model.apply(params, images), labels)

    return training_step(loss, params, array((128, 224, 224, 3)), array((128,), "int32"))


def _model() -> tuple[Any, Any]:
    import jax
    import jax.numpy as jnp
    from flax import linen as nn

    class AlexNet(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            for features, edge, stride, pooled in _CONVOLUTIONS:
                x = nn.relu(nn.Conv(features, (edge, edge), strides=(stride, stride), dtype=jnp.bfloat16)(x))
                x = nn.max_pool(x, (3, 3), strides=(2, 2)) if pooled else x
            x = x.reshape(x.shape[0], -1)
            for _ in range(2):
                x = nn.relu(nn.Dense(4096, dtype=jnp.bfloat16)(x))
            return nn.Dense(1000, dtype=jnp.bfloat16)(x)

    model = AlexNet()
    images = jnp.zeros((1, 224, 224, 3), jnp.bfloat16)
    return model, half(jax.eval_shape(model.init, jax.random.PRNGKey(0), images))
