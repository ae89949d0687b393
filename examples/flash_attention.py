"""A training step of a transformer whose attention is a Pallas kernel, JAX's flash attention: four layers, unrolled.

mallocmuzero tune examples.flash_attention:step --target v5e --minutes 14 -o options.json

The output is in docs/round-trip.md.
"""

import jax
import jax.numpy as jnp
from jax.experimental.pallas.ops.tpu.flash_attention import flash_attention

LAYERS, WIDTH, HIDDEN, HEADS = 4, 1024, 4096, 16
BATCH, LENGTH = 4, 1024


def step():
    def array(*shape):
        return jax.ShapeDtypeStruct(shape, jnp.bfloat16)

    def layer(x, w):
        q, k, v = jnp.einsum("bsd,kdhe->kbhse", x, w["qkv"])
        y = flash_attention(q, k, v, causal=True, sm_scale=(WIDTH // HEADS) ** -0.5)
        x = x + y.swapaxes(1, 2).reshape(x.shape) @ w["out"]
        return x + jax.nn.gelu(x @ w["up"]) @ w["down"]

    def loss(params, x, wanted):
        for w in params:
            x = layer(x, w)
        return jnp.mean((x - wanted).astype(jnp.float32) ** 2)

    def train(params, x, wanted):
        value, gradients = jax.value_and_grad(loss)(params, x, wanted)
        return jax.tree.map(lambda p, g: (p - 1e-3 * g).astype(p.dtype), params, gradients), value

    weights = {
        "qkv": array(3, WIDTH, HEADS, WIDTH // HEADS),
        "out": array(WIDTH, WIDTH),
        "up": array(WIDTH, HIDDEN),
        "down": array(HIDDEN, WIDTH),
    }
    batch = array(BATCH, LENGTH, WIDTH)
    return train, ([weights] * LAYERS, batch, batch)
