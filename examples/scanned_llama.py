"""A training step of a Llama-like transformer: six layers under `jax.lax.scan`, recomputed in the backward pass.

mallocmuzero tune examples.scanned_llama:step --target v5e --minutes 20 -o options.json

The output is in docs/round-trip.md.
"""

import jax
import jax.numpy as jnp

LAYERS, WIDTH, HIDDEN, HEADS, VOCABULARY = 6, 512, 1408, 8, 8192
BATCH, LENGTH = 8, 512


def step():
    def array(*shape):
        return jax.ShapeDtypeStruct(shape, jnp.bfloat16)

    def norm(x, gain):
        square = jnp.mean(jnp.square(x.astype(jnp.float32)), -1, keepdims=True)
        return x * jax.lax.rsqrt(square + 1e-6).astype(x.dtype) * gain

    def layer(x, w):
        y = norm(x, w["n1"])
        q, k, v = (jnp.einsum("btd,dhe->bhte", y, w[n]) for n in "qkv")
        scores = jnp.einsum("bhte,bhse->bhts", q, k) / (WIDTH // HEADS) ** 0.5
        scores = jnp.where(jnp.tril(jnp.ones((LENGTH, LENGTH), bool)), scores.astype(jnp.float32), -1e9)
        x = x + jnp.einsum("bhts,bhse,hed->btd", jax.nn.softmax(scores).astype(x.dtype), v, w["o"])
        y = norm(x, w["n2"])
        return x + (jax.nn.silu(y @ w["gate"]) * (y @ w["up"])) @ w["down"], None

    def loss(params, tokens):
        x, _ = jax.lax.scan(jax.checkpoint(layer), params["embedding"][tokens], params["layers"])
        logits = (x @ params["embedding"].T)[:, :-1].astype(jnp.float32)
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[:, 1:, None], -1))

    def train(params, tokens):
        value, gradients = jax.value_and_grad(loss)(params, tokens)
        return jax.tree.map(lambda p, g: (p - 1e-3 * g).astype(p.dtype), params, gradients), value

    heads = {n: array(LAYERS, WIDTH, HEADS, WIDTH // HEADS) for n in "qkv"}
    norms = {n: array(LAYERS, WIDTH) for n in ("n1", "n2")}
    wide = {n: array(LAYERS, WIDTH, HIDDEN) for n in ("gate", "up")}
    layers = {**heads, **norms, **wide, "o": array(LAYERS, HEADS, WIDTH // HEADS, WIDTH)}
    layers["down"] = array(LAYERS, HIDDEN, WIDTH)
    params = {"embedding": array(VOCABULARY, WIDTH), "layers": layers}
    return train, (params, jax.ShapeDtypeStruct((BATCH, LENGTH), jnp.int32))
