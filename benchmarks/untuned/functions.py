"""Functions as people write them: each returns a function to compile and its abstract arguments.

They need jax, flax and optax, and nothing of this project. Their shapes make a step take from a tenth of a
millisecond to about ten milliseconds.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax import lax

_BF16, _F32, _I32, _I8 = jnp.bfloat16, jnp.float32, jnp.int32, jnp.int8
_Step = tuple[Callable[..., Any], tuple[Any, ...]]


def _array(*shape: int, dtype: Any = _BF16) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def _descend(parameters: Any, gradients: Any) -> Any:
    return jax.tree.map(lambda p, g: (p - 1e-3 * g).astype(p.dtype), parameters, gradients)


def _mean_square(x: jax.Array) -> jax.Array:
    return jnp.mean(x.astype(_F32) ** 2)


def gpt_muon() -> _Step:
    """A training step of a GPT of four layers, written with flax NNX, by Muon."""

    class Block(nnx.Module):
        def __init__(self, width: int, heads: int, rngs: nnx.Rngs) -> None:
            self.norms = nnx.List([nnx.LayerNorm(width, rngs=rngs) for _ in range(2)])
            self.attention = nnx.MultiHeadAttention(heads, width, decode=False, dtype=_BF16, rngs=rngs)
            self.up = nnx.Linear(width, 4 * width, dtype=_BF16, rngs=rngs)
            self.down = nnx.Linear(4 * width, width, dtype=_BF16, rngs=rngs)

        def __call__(self, x: jax.Array) -> jax.Array:
            mask = nnx.make_causal_mask(jnp.ones(x.shape[:2]))
            x = x + self.attention(self.norms[0](x), mask=mask)
            return x + self.down(jax.nn.gelu(self.up(self.norms[1](x))))

    class Model(nnx.Module):
        def __init__(self, words: int, width: int, heads: int, layers: int, rngs: nnx.Rngs) -> None:
            self.embedding = nnx.Embed(words, width, rngs=rngs)
            self.blocks = nnx.List([Block(width, heads, rngs) for _ in range(layers)])
            self.norm = nnx.LayerNorm(width, rngs=rngs)

        def __call__(self, tokens: jax.Array) -> jax.Array:
            x = self.embedding(tokens)
            for block in self.blocks:
                x = block(x)
            return self.embedding.attend(self.norm(x))

    graph, state = nnx.split(nnx.eval_shape(lambda: Model(8192, 512, 8, 4, nnx.Rngs(0))))
    optimiser = optax.contrib.muon(1e-3)
    structure = jax.tree.structure(state)

    def step(parameters: Any, memory: Any, tokens: jax.Array) -> Any:
        def loss(parameters: Any) -> jax.Array:
            model = nnx.merge(graph, jax.tree.unflatten(structure, jax.tree.leaves(parameters)))
            logits = model(tokens[:, :-1]).astype(_F32)
            return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()

        value, gradients = jax.value_and_grad(loss)(parameters)
        updates, memory = optimiser.update(gradients, memory, parameters)
        return optax.apply_updates(parameters, updates), memory, value

    parameters = nnx.to_pure_dict(state)
    return step, (parameters, jax.eval_shape(optimiser.init, parameters), _array(8, 513, dtype=_I32))


def state_space() -> _Step:
    """A training step of two selective state-space layers, by an associative scan."""
    width, states = 512, 16

    def layer(x: jax.Array, w: dict[str, jax.Array]) -> jax.Array:
        u, gate = jnp.split(x @ w["in"], 2, -1)
        u = jax.nn.silu(u)
        step = jax.nn.softplus(u @ w["step"]).astype(_F32)
        keep = jnp.exp(step[..., None] * -jnp.exp(w["decay"]))
        add = step[..., None] * (u @ w["write"]).astype(_F32)[:, :, None, :] * u[..., None]
        _, state = lax.associative_scan(lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1]), (keep, add), axis=1)
        y = jnp.einsum("blds,bls->bld", state, (u @ w["read"]).astype(_F32)).astype(_BF16) + u * w["skip"]
        return x + (y * jax.nn.silu(gate)) @ w["out"]

    def step(parameters: Any, x: jax.Array) -> Any:
        def loss(parameters: Any) -> jax.Array:
            h = x
            for w in parameters:
                h = layer(h, w)
            return _mean_square(h)

        return _descend(parameters, jax.grad(loss)(parameters))

    w = {
        "in": _array(width, 2 * width),
        "step": _array(width, width),
        "write": _array(width, states),
        "read": _array(width, states),
        "decay": _array(width, states, dtype=_F32),
        "skip": _array(width),
        "out": _array(width, width),
    }
    return step, ([w] * 2, _array(2, 512, width))


def experts() -> _Step:
    """A training step of two mixtures of eight experts, two for each row, by `ragged_dot`."""
    number, width, hidden, rows = 8, 1024, 2048, 4096

    def mixture(h: jax.Array, w: dict[str, jax.Array]) -> jax.Array:
        share, chosen = lax.top_k(jax.nn.softmax(h.astype(_F32) @ w["router"]), 2)
        order = jnp.argsort(chosen.reshape(-1))
        sizes = jnp.bincount(chosen.reshape(-1), length=number).astype(_I32)
        up = jax.nn.silu(lax.ragged_dot(h[order // 2], w["up"], sizes))
        y = lax.ragged_dot(up, w["down"], sizes) * share.reshape(-1)[order][:, None].astype(_BF16)
        return h + jnp.zeros_like(h).at[order // 2].add(y)

    def step(parameters: Any, x: jax.Array) -> Any:
        def loss(parameters: Any) -> jax.Array:
            h = x
            for w in parameters:
                h = mixture(h, w)
            return _mean_square(h)

        value, gradients = jax.value_and_grad(loss)(parameters)
        return _descend(parameters, gradients), value

    w = {
        "router": _array(width, number, dtype=_F32),
        "up": _array(number, width, hidden),
        "down": _array(number, hidden, width),
    }
    return step, ([w] * 2, _array(rows, width))


def fourier_operator() -> _Step:
    """Three layers of a Fourier neural operator on images of 128 x 128."""
    modes, width = 32, 64

    def step(parameters: Any, x: jax.Array) -> jax.Array:
        for spectral, local in parameters:
            waves = jnp.fft.rfft2(x, axes=(1, 2))
            kept = jnp.einsum("bxyi,xyio->bxyo", waves[:, :modes, :modes], spectral[0] + 1j * spectral[1])
            waves = jnp.zeros_like(waves).at[:, :modes, :modes].set(kept)
            x = jax.nn.gelu(jnp.fft.irfft2(waves, axes=(1, 2), s=x.shape[1:3]) + x @ local)
        return x

    w = (_array(2, modes, modes, width, width, dtype=_F32), _array(width, width, dtype=_F32))
    return step, ([w] * 3, _array(8, 128, 128, width, dtype=_F32))


def graph_messages() -> _Step:
    """A training step of three rounds of messages over 80,000 edges, summed and maximised by segment."""
    nodes, edges, width = 20_000, 80_000, 128

    def step(parameters: Any, x: jax.Array, source: jax.Array, to: jax.Array) -> Any:
        def loss(parameters: Any) -> jax.Array:
            h = x
            for w in parameters:
                message = jax.nn.relu(jnp.concatenate([h[source], h[to]], -1) @ w["message"])
                total, most = jax.ops.segment_sum(message, to, nodes), jax.ops.segment_max(message, to, nodes)
                h = jax.nn.relu(jnp.concatenate([h, total, jnp.maximum(most, 0)], -1) @ w["update"])
            return _mean_square(h)

        value, gradients = jax.value_and_grad(loss)(parameters)
        return _descend(parameters, gradients), value

    w = {"message": _array(2 * width, width, dtype=_F32), "update": _array(3 * width, width, dtype=_F32)}
    indices = _array(edges, dtype=_I32)
    return step, ([w] * 3, _array(nodes, width, dtype=_F32), indices, indices)


def convolutions_3d() -> _Step:
    """A training step of six convolutions on volumes of 32 x 32 x 32."""
    channels = (4, 32, 64, 64, 32, 32, 4)

    def step(parameters: Any, x: jax.Array, y: jax.Array) -> Any:
        def loss(parameters: Any) -> jax.Array:
            h = x
            for number, w in enumerate(parameters):
                shapes = ("NCDHW", "OIDHW", "NCDHW")
                h = lax.conv_general_dilated(h, w, (1, 1, 1), "SAME", dimension_numbers=shapes)
                h = jax.nn.relu(h) if number < len(parameters) - 1 else h
            return jnp.mean((h - y) ** 2)

        return _descend(parameters, jax.grad(loss)(parameters))

    weights = [_array(out, into, 3, 3, 3, dtype=_F32) for into, out in pairwise(channels)]
    volumes = _array(2, 4, 32, 32, 32, dtype=_F32)
    return step, (weights, volumes, volumes)


def decode_int8() -> _Step:
    """A token of an eight-layer decoder in int8, layers scanned, with donated caches of 1,024 positions."""
    layers, width, heads, positions, batch = 8, 2048, 16, 1024, 16

    def product(a: jax.Array, w: jax.Array, scale: jax.Array) -> jax.Array:
        dimensions = (((1,), (0,)), ((), ()))
        return (lax.dot_general(a.astype(_I8), w, dimensions, preferred_element_type=_I32) * scale).astype(_BF16)

    def step(parameters: Any, caches: Any, token: jax.Array, position: jax.Array) -> Any:
        def layer(x: jax.Array, given: Any) -> Any:
            w, (keys, values) = given
            query, key, value = (product(x, w[name], w["scale"]).reshape(batch, heads, -1) for name in "qkv")
            keys = lax.dynamic_update_slice(keys, key[:, None], (0, position, 0, 0))
            values = lax.dynamic_update_slice(values, value[:, None], (0, position, 0, 0))
            scores = jnp.einsum("bhd,bthd->bht", query, keys).astype(_F32) * (width // heads) ** -0.5
            scores = jax.nn.softmax(jnp.where(jnp.arange(positions) <= position, scores, -1e9)).astype(_BF16)
            x = x + product(jnp.einsum("bht,bthd->bhd", scores, values).reshape(batch, width), w["o"], w["scale"])
            up = jax.nn.silu(product(x, w["up"], w["up_scale"]))
            return x + product(up, w["down"], w["scale"]), (keys, values)

        x, caches = lax.scan(layer, parameters["embedding"][token], (parameters["layers"], caches))
        return jnp.argmax(x @ parameters["embedding"].T, -1), caches

    w = {name: _array(layers, width, width, dtype=_I8) for name in "qkvo"} | {
        "up": _array(layers, width, 4 * width, dtype=_I8),
        "down": _array(layers, 4 * width, width, dtype=_I8),
        "scale": _array(layers, width, dtype=_F32),
        "up_scale": _array(layers, 4 * width, dtype=_F32),
    }
    cache = _array(layers, batch, positions, heads, width // heads)
    arguments = (
        {"embedding": _array(8192, width), "layers": w},
        (cache, cache),
        _array(batch, dtype=_I32),
        _array(dtype=_I32),
    )
    return jax.jit(step, donate_argnums=1), arguments


def policy_gradient() -> _Step:
    """An iteration of PPO: 32 steps of 2,048 environments, advantages, and four epochs by Adam."""
    optimiser = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(3e-4))

    def network(parameters: Any, x: jax.Array) -> jax.Array:
        for w in parameters[:-1]:
            x = jnp.tanh(x @ w)
        return x @ parameters[-1]

    def step(parameters: Any, memory: Any, seen: jax.Array, key: jax.Array) -> Any:
        def act(state: Any, _: None) -> Any:
            seen, key = state
            key, mine = jax.random.split(key)
            out = network(parameters, seen)
            action = jax.random.categorical(mine, out[:, :-1])
            then = jnp.roll(seen, 1, -1) * 0.99 + jax.nn.one_hot(action, seen.shape[-1])
            return (then, key), (seen, action, out, then.mean(-1))

        (seen, key), (states, actions, before, rewards) = lax.scan(act, (seen, key), None, 32)
        _, returns = lax.scan(lambda r, now: (now + 0.97 * r,) * 2, jnp.zeros(seen.shape[0]), rewards, reverse=True)

        def epoch(state: Any, _: None) -> Any:
            def loss(parameters: Any) -> jax.Array:
                out = network(parameters, states)
                change = jax.nn.log_softmax(out[..., :-1]) - jax.nn.log_softmax(before[..., :-1])
                ratio = jnp.exp(jnp.take_along_axis(change, actions[..., None], -1)[..., 0])
                error = returns - out[..., -1]
                gain = lax.stop_gradient(error)
                return jnp.mean(error**2 - jnp.minimum(ratio * gain, jnp.clip(ratio, 0.8, 1.2) * gain))

            parameters, memory = state
            updates, memory = optimiser.update(jax.grad(loss)(parameters), memory, parameters)
            return (optax.apply_updates(parameters, updates), memory), None

        (parameters, memory), _ = lax.scan(epoch, (parameters, memory), None, 4)
        return parameters, memory, seen, key

    parameters = [_array(128, 1024, dtype=_F32), _array(1024, 1024, dtype=_F32), _array(1024, 65, dtype=_F32)]
    arguments = _array(2048, 128, dtype=_F32), _array(2, dtype=jnp.uint32)
    return step, (parameters, jax.eval_shape(optimiser.init, parameters), *arguments)


def preconditioned() -> _Step:
    """An update of three matrices by second-order statistics, with Cholesky and QR decompositions."""

    def step(weights: Any, gradients: Any, left: Any, right: Any) -> Any:
        found = []
        for w, g, rows, columns in zip(weights, gradients, left, right, strict=True):
            rows, columns = 0.9 * rows + g @ g.T, 0.9 * columns + g.T @ g
            root = jnp.linalg.cholesky(rows + 1e-3 * jnp.eye(rows.shape[0]))
            basis, _ = jnp.linalg.qr(columns)
            found.append((w - 1e-3 * jax.scipy.linalg.cho_solve((root, True), g) @ basis, rows, columns))
        return found

    return step, ([_array(512, 512, dtype=_F32)] * 3,) * 4


def beam_search() -> _Step:
    """A beam search of up to 64 words over a vocabulary of 8,192, in a `while_loop`."""
    batch, beams, words, width, length = 8, 4, 8192, 1024, 64

    def step(w: Any, first: jax.Array) -> Any:
        def goes_on(state: Any) -> jax.Array:
            return (state[0] < length) & ~jnp.all(state[3])

        def extend(state: Any) -> Any:
            t, text, score, _, memory = state
            memory = jnp.tanh(w["embedding"][text[:, :, t]] @ w["in"] + memory @ w["again"])
            scores = jax.nn.log_softmax((memory @ w["out"]).astype(_F32)) + score[..., None]
            score, chosen = lax.top_k(scores.reshape(batch, beams * words), beams)
            beam, word = chosen // words, chosen % words
            text = jnp.take_along_axis(text, beam[..., None], 1)
            text = lax.dynamic_update_slice(text, word[..., None].astype(_I32), (0, 0, t + 1))
            return t + 1, text, score, word == 1, jnp.take_along_axis(memory, beam[..., None], 1)

        text = jnp.zeros((batch, beams, length + 1), _I32).at[:, :, 0].set(first[:, None])
        ended, memory = jnp.zeros((batch, beams), bool), jnp.zeros((batch, beams, width), _BF16)
        return lax.while_loop(goes_on, extend, (0, text, jnp.zeros((batch, beams)), ended, memory))[1:3]

    w = {
        "embedding": _array(words, width),
        "in": _array(width, width),
        "again": _array(width, width),
        "out": _array(width, words),
    }
    return step, (w, _array(batch, dtype=_I32))


def diffusion_sampling() -> _Step:
    """Fifty steps of sampling, each six residual convolutions under a scan, on images of 32 x 32."""
    width = 256

    def convolution(x: jax.Array, w: jax.Array) -> jax.Array:
        return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def step(w: Any, x: jax.Array, key: jax.Array) -> jax.Array:
        def denoise(i: jax.Array, state: Any) -> Any:
            x, key = state
            key, mine = jax.random.split(key)
            time = i.astype(_BF16) / 50
            h = jax.nn.silu(convolution(x, w["in"]))
            h, _ = lax.scan(lambda h, k: (h + convolution(jax.nn.silu(h + time), k), None), h, w["middle"])
            return x - 0.1 * convolution(h, w["out"]) + 0.01 * jax.random.normal(mine, x.shape, _BF16), key

        return lax.fori_loop(0, 50, denoise, (x, key))[0]

    w = {"in": _array(3, 3, 8, width), "middle": _array(6, 3, 3, width, width), "out": _array(3, 3, width, 8)}
    return step, (w, _array(16, 32, 32, 8), _array(2, dtype=jnp.uint32))


def scanned_adafactor() -> _Step:
    """A training step of six layers under `scan` and `checkpoint`, by Adafactor."""
    width, layers = 1024, 6
    optimiser = optax.adafactor(1e-3)

    def block(x: jax.Array, w: Any) -> jax.Array:
        query, key, value = (a.reshape(*a.shape[:2], 8, -1) for a in jnp.split(x @ w["qkv"], 3, -1))
        attended = jax.nn.dot_product_attention(query, key, value, is_causal=True).reshape(x.shape)
        x = x + attended @ w["out"]
        return x + jax.nn.gelu(x @ w["up"]) @ w["down"]

    def step(parameters: Any, memory: Any, x: jax.Array) -> Any:
        def loss(parameters: Any) -> jax.Array:
            kept = jax.checkpoint(block, policy=jax.checkpoint_policies.dots_saveable)
            return _mean_square(lax.scan(lambda h, w: (kept(h, w), None), x, parameters)[0])

        value, gradients = jax.value_and_grad(loss)(parameters)
        updates, memory = optimiser.update(gradients, memory, parameters)
        return optax.apply_updates(parameters, updates), memory, value

    parameters = {
        "qkv": _array(layers, width, 3 * width),
        "out": _array(layers, width, width),
        "up": _array(layers, width, 4 * width),
        "down": _array(layers, 4 * width, width),
    }
    return step, (parameters, jax.eval_shape(optimiser.init, parameters), _array(4, 1024, width))


def speech_ctc() -> _Step:
    """A training step of three convolutions over sound, by the connectionist loss."""

    def step(parameters: Any, x: jax.Array, labels: jax.Array, padding: jax.Array) -> Any:
        def loss(parameters: Any) -> jax.Array:
            h = x
            for w in parameters[:-1]:
                h = jax.nn.relu(lax.conv_general_dilated(h, w, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")))
            return optax.ctc_loss(h @ parameters[-1], jnp.zeros(h.shape[:2]), labels, padding).mean()

        value, gradients = jax.value_and_grad(loss)(parameters)
        return _descend(parameters, gradients), value

    shapes = (5, 80, 512), (5, 512, 512), (5, 512, 512), (512, 64)
    parameters = [_array(*shape, dtype=_F32) for shape in shapes]
    labels = _array(16, 64, dtype=_I32), _array(16, 64, dtype=_F32)
    return step, (parameters, _array(16, 512, 80, dtype=_F32), *labels)


def line_search() -> _Step:
    """A step of L-BFGS with its line search, on a network of one hidden layer."""
    optimiser = optax.lbfgs()

    def step(parameters: Any, memory: Any, x: jax.Array, y: jax.Array) -> Any:
        def loss(parameters: Any) -> jax.Array:
            return jnp.mean((jnp.tanh(x @ parameters[0]) @ parameters[1] - y) ** 2)

        value, gradients = jax.value_and_grad(loss)(parameters)
        updates, memory = optimiser.update(gradients, memory, parameters, value=value, grad=gradients, value_fn=loss)
        return optax.apply_updates(parameters, updates), memory

    parameters = [_array(1024, 1024, dtype=_F32), _array(1024, 256, dtype=_F32)]
    data = _array(4096, 1024, dtype=_F32), _array(4096, 256, dtype=_F32)
    return step, (parameters, jax.eval_shape(optimiser.init, parameters), *data)


def hybrid_layers() -> _Step:
    """Eight scanned layers, each attention or a recurrence, chosen by `switch`."""
    width, layers = 512, 8

    def step(parameters: Any, kinds: jax.Array, x: jax.Array) -> jax.Array:
        def layer(x: jax.Array, given: Any) -> Any:
            w, kind = given

            def attention(x: jax.Array) -> jax.Array:
                scores = jax.nn.softmax((x @ w["scores"]) @ x.swapaxes(-1, -2) * width**-0.5)
                return x + (scores @ x) @ w["out"]

            def recurrence(x: jax.Array) -> jax.Array:
                _, y = lax.scan(lambda h, u: (0.9 * h + u,) * 2, jnp.zeros_like(x[:, 0]), x.swapaxes(0, 1))
                return x + y.swapaxes(0, 1) @ w["out"]

            return lax.switch(kind, [recurrence, attention], x), None

        return lax.scan(layer, x, (parameters, kinds))[0]

    w = {"scores": _array(layers, width, width), "out": _array(layers, width, width)}
    return step, (w, _array(layers, dtype=_I32), _array(4, 1024, width))
