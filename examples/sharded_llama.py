"""A training step of a Llama-like transformer on 2 x 2 chips: the batch is split over two, each weight over the others.

    cd examples && mallocmuzero tune sharded_llama:step --target v5e:2x2 --minutes 20 -o options.json

A function that takes an argument receives the topology's devices, and builds its mesh from them.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

LAYERS, WIDTH, HIDDEN, HEADS, VOCABULARY = 2, 1024, 2816, 8, 8192
BATCH, LENGTH = 8, 512


def step(devices):
    mesh = Mesh(devices.reshape(2, -1), ("data", "model"))

    def array(shape, *axes, dtype=jnp.bfloat16):
        return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, P(*axes)))

    def at(x, *axes):
        return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P(*axes)))

    def norm(x, gain):
        y = x.astype(jnp.float32)
        return (y * jax.lax.rsqrt(jnp.mean(y * y, -1, keepdims=True) + 1e-5)).astype(x.dtype) * gain

    def layer(x, w):
        batch, length, _ = x.shape
        q, k, v = (
            at((norm(x, w["n1"]) @ w[n]).reshape(batch, length, HEADS, -1), "data", None, "model") for n in "qkv"
        )
        scores = jnp.einsum("blhd,bmhd->bhlm", q, k).astype(jnp.float32) / np.sqrt(WIDTH // HEADS)
        scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
        mixed = jnp.einsum("bhlm,bmhd->blhd", jax.nn.softmax(scores).astype(x.dtype), v)
        x = at(x + mixed.reshape(batch, length, WIDTH) @ w["o"], "data")
        y = norm(x, w["n2"])
        return at(x + (jax.nn.silu(y @ w["gate"]) * (y @ w["up"])) @ w["down"], "data")

    def loss(weights, tokens):
        x = at(weights["embedding"][tokens], "data")
        for w in weights["layers"]:
            x = layer(x, w)
        logits = (norm(x, weights["norm"]) @ weights["embedding"].T).astype(jnp.float32)
        wanted = jnp.take_along_axis(logits, jnp.roll(tokens, -1, 1)[..., None], -1)[..., 0]
        return jnp.mean(jax.nn.logsumexp(logits, -1) - wanted)

    def train(weights, momentum, tokens):
        value, gradient = jax.value_and_grad(loss)(weights, tokens)
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradient)
        return value, jax.tree.map(lambda w, m: w - 1e-3 * m, weights, momentum), momentum

    def layer_weights():
        w = {name: array((WIDTH, WIDTH), None, "model") for name in "qkv"}
        w |= {name: array((WIDTH, HIDDEN), None, "model") for name in ("gate", "up")}
        w |= {"o": array((WIDTH, WIDTH), "model"), "down": array((HIDDEN, WIDTH), "model")}
        return w | {name: array((WIDTH,)) for name in ("n1", "n2")}

    weights = {"embedding": array((VOCABULARY, WIDTH), "model"), "norm": array((WIDTH,))}
    weights["layers"] = [layer_weights() for _ in range(LAYERS)]
    tokens = array((BATCH, LENGTH), "data", dtype=jnp.int32)
    return jax.jit(train, donate_argnums=(0, 1)), (weights, weights, tokens)
