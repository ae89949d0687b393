"""DLRM, written after Naumov et al., "Deep Learning Recommendation Model for Personalization and Recommendation
Systems", 2019: bottom and top perceptrons, embedding tables, and dot products between all pairs of features."""

from typing import Any

from .common import Described, array, half, training_step

_DENSE, _TABLES, _ROWS, _WIDTH = 13, 26, 20_000, 64


def dlrm_b2048() -> Described:
    """Inference, batch 2048: 26 tables of 20,000 rows of 64."""
    model, params = _model((512, 256, _WIDTH), (1024, 1024, 512, 256, 1))
    return model.apply, (params, array((2048, _DENSE)), array((2048, _TABLES), "int32"))


def dlrm_train_b2048() -> Described:
    """Training step, batch 2048."""
    return _training(2048, (512, 256, _WIDTH), (1024, 1024, 512, 256, 1))


def dlrm_train_b8192() -> Described:
    """Training step, batch 8192, with the wider perceptrons of the MLPerf model."""
    return _training(8192, (1024, 1024, 512, _WIDTH), (2048, 2048, 1024, 512, 1))


def _training(batch: int, bottom: tuple[int, ...], top: tuple[int, ...]) -> Described:
    import jax
    import jax.numpy as jnp

    model, params = _model(bottom, top)

    def loss(params: Any, dense: Any, sparse: Any, clicked: Any) -> Any:
        logits = model.apply(params, dense, sparse).astype(jnp.float32)
        return jnp.mean(jax.nn.softplus(logits) - clicked * logits)

    given = array((batch, _DENSE)), array((batch, _TABLES), "int32"), array((batch,), "float32")
    return training_step(loss, params, *given)


def _model(bottom: tuple[int, ...], top: tuple[int, ...]) -> tuple[Any, Any]:
    import jax
    import jax.numpy as jnp
    from flax import linen as nn

    def perceptron(x: Any, widths: tuple[int, ...]) -> Any:
        for number, width in enumerate(widths):
            x = nn.Dense(width, dtype=jnp.bfloat16)(x)
            x = nn.relu(x) if number < len(widths) - 1 else x
        return x

    class Dlrm(nn.Module):
        @nn.compact
        def __call__(self, dense: Any, sparse: Any) -> Any:
            dense = nn.relu(perceptron(dense, bottom))
            embedded = [nn.Embed(_ROWS, _WIDTH, dtype=jnp.bfloat16)(sparse[:, table]) for table in range(_TABLES)]
            features = jnp.stack([dense, *embedded], 1)
            products = jnp.einsum("bij,bkj->bik", features, features)
            rows, columns = jnp.triu_indices(_TABLES + 1, 1)
            joined = jnp.concatenate([dense, products[:, rows, columns]], -1)
            return perceptron(joined, top)[:, 0]

    model = Dlrm()
    example = jnp.zeros((1, _DENSE), jnp.bfloat16), jnp.zeros((1, _TABLES), jnp.int32)
    return model, half(jax.eval_shape(model.init, jax.random.PRNGKey(0), *example))
