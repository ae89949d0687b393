"""AlphaTensor's network, written after Fawzi et al., "Discovering faster matrix multiplication algorithms with
reinforcement learning", Nature 610, 2022, Methods and Supplementary Information (algorithms A.1 to A.9).

The torso projects the tensor onto three grids of S x S; attentive modes then attend over the columns that two grids
share. The policy head is a causal transformer decoder over the tokens of one action; the value head predicts quantiles.
Actions are cut into tokens of four coefficients of {-2, ..., 2} each, which the publication leaves open.
"""

from typing import Any

from .common import Described, array, cross_entropy, half, training_step

_SIDE, _PAST, _SCALARS = 16, 7, 1
_TOKENS, _LOGITS, _QUANTILES = 3 * _SIDE // 4, 5**4, 8
_WIDTH, _HEADS = 512, 16


def alphatensor_b64() -> Described:
    """Inference, batch 64, for products of 4 x 4 matrices: eight rounds of attentive modes."""
    model, params = _model(8)
    return model.apply, (params, *_observations(64))


def alphatensor_train_b32() -> Described:
    """Training step, batch 32, with one of the eight rounds: imitates actions, regresses quantiles of the value."""
    return _training(32, 1)


def alphatensor_train_b4() -> Described:
    """Training step, batch 4, with all eight rounds."""
    return _training(4, 8)


def _training(batch: int, rounds: int) -> Described:
    import jax.numpy as jnp

    model, params = _model(rounds)
    levels = (2 * jnp.arange(_QUANTILES) + 1) / (2 * _QUANTILES)

    def loss(params: Any, tensors: Any, scalars: Any, actions: Any, returns: Any) -> Any:
        logits, quantiles = model.apply(params, tensors, scalars, actions)
        missed = returns[:, None] - quantiles.astype(jnp.float32)
        huber = jnp.where(jnp.abs(missed) < 1, 0.5 * missed**2, jnp.abs(missed) - 0.5)
        return cross_entropy(logits, actions) + jnp.mean(huber * jnp.abs(levels - (missed < 0)))

    return training_step(loss, params, *_observations(batch), array((batch,), "float32"))


def _observations(batch: int) -> tuple[Any, ...]:
    """Returns the tensor and those of past actions, scalars, and the actions that the decoder is given."""
    tensors = array((batch, _PAST + 1, _SIDE, _SIDE, _SIDE))
    return tensors, array((batch, _SCALARS)), array((batch, _TOKENS), "int32")


def _model(rounds: int) -> tuple[Any, Any]:
    import jax
    import jax.numpy as jnp
    from flax import linen as nn

    def dense(width: int) -> Any:
        return nn.Dense(width, dtype=jnp.bfloat16)

    def norm(x: Any) -> Any:
        return nn.LayerNorm(dtype=jnp.bfloat16)(x)

    class Attention(nn.Module):
        """Attention with a residual connection and a wide hidden layer after it; `[..., N, C]`."""

        @nn.compact
        def __call__(self, x: Any, y: Any = None, mask: Any = None) -> Any:
            given = norm(x)
            heads = nn.MultiHeadDotProductAttention(_HEADS, qkv_features=32 * _HEADS, dtype=jnp.bfloat16)
            x = x + heads(given, given if y is None else norm(y), mask=mask)
            return x + dense(x.shape[-1])(nn.gelu(dense(4 * x.shape[-1])(norm(x))))

    class Torso(nn.Module):
        @nn.compact
        def __call__(self, tensors: Any, scalars: Any) -> Any:
            grids = []
            for axes in ((0, 2, 3, 4, 1), (0, 3, 4, 2, 1), (0, 4, 2, 3, 1)):
                grid = tensors.transpose(axes).reshape(-1, _SIDE, _SIDE, _SIDE * (_PAST + 1))
                plane = dense(_SIDE * _SIDE)(scalars).reshape(-1, _SIDE, _SIDE, 1)
                grids.append(dense(_WIDTH)(jnp.concatenate([grid, plane], -1)))
            for _ in range(rounds):
                for one, other in ((0, 1), (2, 0), (1, 2)):
                    joined = jnp.concatenate([grids[one], grids[other].swapaxes(1, 2)], 2)
                    joined = Attention()(joined)
                    grids[one], grids[other] = joined[:, :, :_SIDE], joined[:, :, _SIDE:].swapaxes(1, 2)
            return jnp.stack(grids, 1).reshape(-1, 3 * _SIDE * _SIDE, _WIDTH)

    class AlphaTensor(nn.Module):
        @nn.compact
        def __call__(self, tensors: Any, scalars: Any, actions: Any) -> Any:
            features = Torso()(tensors, scalars)
            shifted = jnp.pad(actions, ((0, 0), (1, 0)))[:, :-1]
            place = self.param("place", nn.initializers.normal(0.02), (_TOKENS, _WIDTH), jnp.bfloat16)
            x = nn.Embed(_LOGITS, _WIDTH, dtype=jnp.bfloat16)(shifted) + place
            for _ in range(2):
                x = Attention()(x, mask=nn.make_causal_mask(actions))
                x = Attention()(x, features)
            logits = dense(_LOGITS)(nn.relu(x))
            value = x[:, 0]
            for _ in range(3):
                value = nn.relu(dense(512)(value))
            return logits, dense(_QUANTILES)(value)

    model = AlphaTensor()
    example = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), _observations(1))
    return model, half(jax.eval_shape(model.init, jax.random.PRNGKey(0), *example))
