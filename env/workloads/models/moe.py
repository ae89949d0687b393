"""A mixture of experts, written after Fedus et al., "Switch Transformers", 2021 (top-1 routing with a capacity, the
tokens sent by one-hot matrices), and top-2 routing as in Lepikhin et al., "GShard", 2020."""

from typing import Any

from .common import Described, array, cross_entropy, half, training_step


def switch_train_b4_s512() -> Described:
    """Training step of a decoder of four layers, eight experts each, top 1; batch 4, length 512."""
    return _training(4, 512, layers=4, experts=8, chosen=1)


def gshard_train_b4_s256() -> Described:
    """Training step of a decoder of four layers, eight experts each, top 2; batch 4, length 256."""
    return _training(4, 256, layers=4, experts=8, chosen=2)


def gshard_b8_s512() -> Described:
    """Inference with a decoder of six layers, sixteen experts each, top 2; batch 8, length 512."""
    model, params = _model(layers=6, experts=16, chosen=2)
    return model.apply, (params, array((8, 512), "int32"))


def _training(batch: int, length: int, **sizes: int) -> Described:
    model, params = _model(**sizes)

    def loss(params: Any, ids: Any, labels: Any) -> Any:
        return cross_entropy(model.apply(params, ids), labels)

    ids = array((batch, length), "int32")
    return training_step(loss, params, ids, ids)


def _model(layers: int, experts: int, chosen: int) -> tuple[Any, Any]:
    import jax
    import jax.numpy as jnp
    from flax import linen as nn

    width, hidden, vocabulary = 512, 2048, 16384

    class Experts(nn.Module):
        """Feed-forward networks, `[B, S, D]` to `[B, S, D]`; each sequence is a routing group."""

        @nn.compact
        def __call__(self, x: Any) -> Any:
            length = x.shape[1]
            capacity = chosen * length * 5 // (4 * experts)
            gates = jax.nn.softmax(nn.Dense(experts, dtype=jnp.float32)(x))
            weight, expert = jax.lax.top_k(gates, chosen)
            # Place of every choice in its expert's queue: first choices come first.
            taken = jax.nn.one_hot(expert.swapaxes(1, 2), experts, dtype=jnp.float32)
            ahead = jnp.cumsum(taken.reshape(x.shape[0], -1, experts), 1).reshape(taken.shape) - taken
            place = jax.nn.one_hot((ahead * taken).sum(-1).astype(jnp.int32), capacity, dtype=jnp.float32)
            combine = jnp.einsum("bks,bkse,bksc->bsec", weight.swapaxes(1, 2), taken, place).astype(jnp.bfloat16)
            sent = jnp.einsum("bsec,bsd->ebcd", (combine > 0).astype(jnp.bfloat16), x)
            first = self.param("first", nn.initializers.lecun_normal(), (experts, width, hidden), jnp.bfloat16)
            second = self.param("second", nn.initializers.lecun_normal(), (experts, hidden, width), jnp.bfloat16)
            worked = jnp.einsum("ebch,ehd->ebcd", nn.relu(jnp.einsum("ebcd,edh->ebch", sent, first)), second)
            return jnp.einsum("bsec,ebcd->bsd", combine, worked)

    class Decoder(nn.Module):
        @nn.compact
        def __call__(self, ids: Any) -> Any:
            embed = nn.Embed(vocabulary, width, dtype=jnp.bfloat16)
            x = embed(ids)
            causal = nn.make_causal_mask(ids)
            for _ in range(layers):
                y = nn.LayerNorm(dtype=jnp.bfloat16)(x)
                x = x + nn.MultiHeadDotProductAttention(8, dtype=jnp.bfloat16)(y, mask=causal)
                x = x + Experts()(nn.LayerNorm(dtype=jnp.bfloat16)(x))
            return embed.attend(nn.LayerNorm(dtype=jnp.bfloat16)(x))

    model = Decoder()
    return model, half(jax.eval_shape(model.init, jax.random.PRNGKey(0), jnp.zeros((1, 64), jnp.int32)))
