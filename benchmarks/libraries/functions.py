"""Programs of libraries: each function returns what its library compiles, and abstract arguments.

A program is written as the documentation of its library does it. Shapes make it take from a tenth of a millisecond to
some ten milliseconds on a chip.
"""

import os
from collections.abc import Callable
from typing import Any

os.environ.setdefault("KERAS_BACKEND", "jax")

import jax
import jax.numpy as jnp
import optax
from jax import lax

_BF16, _F32, _I32 = jnp.bfloat16, jnp.float32, jnp.int32
_Step = tuple[Callable[..., Any], tuple[Any, ...]]


def _array(*shape: int, dtype: Any = _F32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def _abstract(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), tree)


def _key() -> Any:
    return jax.eval_shape(lambda: jax.random.PRNGKey(0))


def _train_step(loss: Callable[..., jax.Array], parameters: Any, *batch: Any) -> _Step:
    """Returns a step of AdamW that updates its state in place, and its arguments."""
    optimiser = optax.adamw(1e-4)

    def train_step(parameters: Any, memory: Any, *batch: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(parameters, *batch)
        updates, memory = optimiser.update(gradients, memory, parameters)
        return optax.apply_updates(parameters, updates), memory, value

    memory = jax.eval_shape(optimiser.init, parameters)
    return jax.jit(train_step, donate_argnums=(0, 1)), (parameters, memory, *batch)


def _cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    return optax.softmax_cross_entropy_with_integer_labels(logits.astype(_F32), labels).mean()


def _keras_step(model: Any, loss: Any, x: Any, y: Any) -> _Step:
    """Returns Keras's own training step, which `fit` compiles, and its arguments."""
    import keras

    from examples.keras_fit import train_step

    model.compile(optimizer=keras.optimizers.AdamW(1e-3), loss=loss)
    return train_step(model, x, y)


def keras_efficientnet() -> _Step:
    """Keras: a training step of EfficientNetV2-B0 in mixed precision."""
    import keras

    keras.mixed_precision.set_global_policy("mixed_bfloat16")
    model = keras.applications.EfficientNetV2B0(weights=None, input_shape=(224, 224, 3), classes=1000)
    loss = keras.losses.SparseCategoricalCrossentropy()
    return _keras_step(model, loss, _array(32, 224, 224, 3), _array(32, dtype=_I32))


def keras_conv_lstm() -> _Step:
    """Keras: a training step of two convolutional LSTMs that foresee the next image."""
    import keras

    model = keras.Sequential(
        [
            keras.layers.Input((16, 64, 64, 3)),
            keras.layers.ConvLSTM2D(32, 3, padding="same", return_sequences=True),
            keras.layers.BatchNormalization(),
            keras.layers.ConvLSTM2D(32, 3, padding="same"),
            keras.layers.Conv2D(3, 3, padding="same"),
        ]
    )
    return _keras_step(model, keras.losses.MeanSquaredError(), _array(16, 16, 64, 64, 3), _array(16, 64, 64, 3))


def keras_hub_gpt2() -> _Step:
    """KerasHub: a training step of six layers of GPT-2 in mixed precision."""
    import keras
    import keras_hub

    keras.mixed_precision.set_global_policy("mixed_bfloat16")
    backbone = keras_hub.models.GPT2Backbone(
        vocabulary_size=50257, num_layers=6, num_heads=12, hidden_dim=768, intermediate_dim=3072
    )
    model = keras_hub.models.GPT2CausalLM(backbone=backbone, preprocessor=None)
    tokens = {"token_ids": _array(8, 512, dtype=_I32), "padding_mask": _array(8, 512, dtype=jnp.bool_)}
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return _keras_step(model, loss, tokens, _array(8, 512, dtype=_I32))


def transformers_bert() -> _Step:
    """Transformers: a training step of six layers of BERT, with dropout."""
    from transformers import BertConfig, FlaxBertForMaskedLM

    model: Any = FlaxBertForMaskedLM(BertConfig(num_hidden_layers=6), _do_init=False, dtype=_BF16)
    parameters = jax.eval_shape(lambda: model.init_weights(jax.random.key(0), model.input_shape))

    def loss(parameters: Any, batch: Any, key: Any) -> jax.Array:
        logits = model(batch["tokens"], batch["mask"], params=parameters, dropout_rng=key, train=True)[0]
        return _cross_entropy(logits, batch["labels"])

    batch = {name: _array(16, 256, dtype=_I32) for name in ("tokens", "mask", "labels")}
    return _train_step(loss, parameters, batch, _key())


def transformers_whisper_generate() -> _Step:
    """Transformers: Whisper generates 64 tokens, one after the other."""
    from transformers import FlaxWhisperForConditionalGeneration, WhisperConfig

    model: Any = FlaxWhisperForConditionalGeneration(WhisperConfig(), _do_init=False, dtype=_BF16)
    parameters = jax.eval_shape(lambda: model.init_weights(jax.random.key(0), model.input_shape))

    def generate(parameters: Any, features: Any) -> Any:
        return model.generate(features, params=parameters, max_new_tokens=64).sequences

    return generate, (parameters, _array(4, 80, 3000, dtype=_BF16))


def transformers_llama_generate() -> _Step:
    """Transformers: eight layers of Llama generate 64 tokens."""
    from transformers import FlaxLlamaForCausalLM, LlamaConfig

    config = LlamaConfig(
        hidden_size=1024, intermediate_size=2816, num_hidden_layers=8, num_attention_heads=16, pad_token_id=0
    )
    model: Any = FlaxLlamaForCausalLM(config, _do_init=False, dtype=_BF16)
    parameters = jax.eval_shape(lambda: model.init_weights(jax.random.key(0), model.input_shape))

    def generate(parameters: Any, tokens: Any) -> Any:
        return model.generate(tokens, params=parameters, max_new_tokens=64, do_sample=False).sequences

    return generate, (jax.tree.map(lambda p: _array(*p.shape, dtype=_BF16), parameters), _array(4, 128, dtype=_I32))


def gemma_tune() -> _Step:
    """Gemma: a training step of Gemma 3 with 270 million parameters."""
    from gemma import gm

    model = gm.nn.Gemma3_270M()
    tokens = _array(4, 256, dtype=_I32)
    parameters = jax.eval_shape(lambda: model.init(jax.random.key(0), jnp.zeros((1, 8), _I32))["params"])

    def loss(parameters: Any, tokens: Any) -> jax.Array:
        logits = model.apply({"params": parameters}, tokens).logits
        return _cross_entropy(logits[:, :-1], tokens[:, 1:])

    return _train_step(loss, parameters, tokens)


def haiku_transformer() -> _Step:
    """Haiku: a training step of six layers of a transformer."""
    import haiku as hk

    def forward(tokens: jax.Array) -> jax.Array:
        x = hk.Embed(32000, 512)(tokens)
        start, mask = hk.initializers.VarianceScaling(1.0), jnp.tril(jnp.ones((1, 1, *tokens.shape[1:] * 2)))
        for _ in range(6):
            h = hk.LayerNorm(-1, True, True)(x)
            x = x + hk.MultiHeadAttention(8, 64, model_size=512, w_init=start)(h, h, h, mask=mask)
            h = hk.LayerNorm(-1, True, True)(x)
            x = x + hk.Linear(512)(jax.nn.gelu(hk.Linear(2048)(h)))
        return hk.Linear(32000)(x)

    model = hk.without_apply_rng(hk.transform(forward))
    tokens = _array(8, 512, dtype=_I32)

    def loss(parameters: Any, tokens: Any) -> jax.Array:
        return _cross_entropy(model.apply(parameters, tokens)[:, :-1], tokens[:, 1:])

    return _train_step(loss, jax.eval_shape(model.init, _key(), tokens), tokens)


def numpyro_nuts() -> _Step:
    """NumPyro: eight samples of a logistic regression by the No-U-Turn sampler."""
    import numpyro
    from numpyro import distributions as dist
    from numpyro.infer import NUTS

    def model(x: Any, y: Any) -> None:
        weights = numpyro.sample("weights", dist.Normal(jnp.zeros(512), 1.0).to_event(1))
        bias = numpyro.sample("bias", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Bernoulli(logits=x @ weights + bias), obs=y)

    def sample(key: Any, x: Any, y: Any) -> Any:
        kernel = NUTS(model)
        state = kernel.init(key, 0, None, model_args=(x, y), model_kwargs={})
        return lax.fori_loop(0, 8, lambda _, state: kernel.sample(state, (x, y), {}), state).z

    return sample, (_key(), _array(32768, 512), _array(32768, dtype=_I32))


def numpyro_svi() -> _Step:
    """NumPyro: a step of variational inference on a Bayesian network of one hidden layer."""
    import numpyro
    from numpyro import distributions as dist
    from numpyro.infer import SVI, Trace_ELBO
    from numpyro.infer.autoguide import AutoNormal

    def model(x: Any, y: Any) -> None:
        first = numpyro.sample("first", dist.Normal(jnp.zeros((256, 512)), 1.0).to_event(2))
        second = numpyro.sample("second", dist.Normal(jnp.zeros((512, 1)), 1.0).to_event(2))
        numpyro.sample("y", dist.Normal((jnp.tanh(x @ first) @ second)[:, 0], 0.1), obs=y)

    svi = SVI(model, AutoNormal(model), numpyro.optim.Adam(1e-3), Trace_ELBO(num_particles=8))
    state = svi.init(jax.random.PRNGKey(0), jnp.zeros((8192, 256)), jnp.zeros(8192))
    return svi.update, (_abstract(state), _array(8192, 256), _array(8192))


def blackjax_hmc() -> _Step:
    """BlackJAX: ten steps of Hamiltonian Monte Carlo on the weights of a network."""
    import blackjax

    def log_density(weights: Any, x: Any, y: Any) -> jax.Array:
        misfit = jnp.sum((jnp.tanh(x @ weights["a"]) @ weights["b"] - y) ** 2)
        return -misfit - sum(jnp.sum(w**2) for w in jax.tree.leaves(weights))

    def run(key: Any, weights: Any, x: Any, y: Any) -> Any:
        mass = jnp.ones(512 * 256 + 256)
        sampler = blackjax.hmc(lambda w: log_density(w, x, y), 1e-3, mass, num_integration_steps=20)

        def one(state: Any, key: Any) -> Any:
            state, told = sampler.step(key, state)
            return state, told.acceptance_rate

        return lax.scan(one, sampler.init(weights), jax.random.split(key, 10))

    return run, (_key(), {"a": _array(512, 256), "b": _array(256)}, _array(16384, 512), _array(16384))


def ott_sinkhorn() -> _Step:
    """OTT: optimal transport between two clouds of points, and its gradient."""
    from ott.geometry import pointcloud
    from ott.problems.linear import linear_problem
    from ott.solvers.linear import sinkhorn

    def loss(x: Any, y: Any) -> jax.Array:
        clouds = pointcloud.PointCloud(x, y, epsilon=0.05)
        return sinkhorn.Sinkhorn(max_iterations=100)(linear_problem.LinearProblem(clouds)).reg_ot_cost

    return jax.value_and_grad(loss), (_array(2048, 64), _array(2048, 64))


def diffrax_neural_ode() -> _Step:
    """Diffrax and Equinox: a training step of a neural differential equation, solved with adaptive steps."""
    import diffrax
    import equinox as eqx

    network = eqx.filter_eval_shape(lambda: eqx.nn.MLP(256, 256, 1024, 3, jax.nn.softplus, key=jax.random.PRNGKey(0)))
    parameters, rest = eqx.partition(network, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))

    def loss(parameters: Any, starts: Any) -> jax.Array:
        network = eqx.combine(parameters, rest)

        def solve(start: Any) -> Any:
            return diffrax.diffeqsolve(
                diffrax.ODETerm(lambda t, y, args: network(y)),
                diffrax.Tsit5(),
                0.0,
                1.0,
                0.1,
                start,
                stepsize_controller=diffrax.PIDController(rtol=1e-3, atol=1e-6),
                max_steps=64,
                saveat=diffrax.SaveAt(ts=jnp.linspace(0, 1, 8)),
            ).ys

        return jnp.mean(jax.vmap(solve)(starts) ** 2)

    return _train_step(loss, parameters, _array(512, 256))


def brax_ants() -> _Step:
    """Brax: 2,048 ants make twenty random steps."""
    from brax import envs

    env = envs.training.wrap(envs.create("ant", backend="spring"), episode_length=1000)

    def roll(key: Any) -> Any:
        def one(state: Any, key: Any) -> Any:
            state = env.step(state, jax.random.uniform(key, (2048, env.action_size), minval=-1, maxval=1))
            return state, (state.obs, state.reward, state.done)

        return lax.scan(one, env.reset(jax.random.split(key, 2048)), jax.random.split(key, 20))

    return roll, (_key(),)


def mjx_arms() -> _Step:
    """MuJoCo XLA: 1,024 arms of two joints on free bodies make four steps."""
    import mujoco
    from mujoco import mjx

    xml = """<mujoco><worldbody><geom type="plane" size="5 5 .1"/>
    <body pos="0 0 1"><freejoint/><geom type="sphere" size=".1"/>
    <body pos="0 .1 0"><joint axis="1 0 0"/><geom type="capsule" fromto="0 0 0 0 .3 0" size=".05"/>
    <body pos="0 .3 0"><joint axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0 .3 0" size=".05"/></body></body></body>
    </worldbody></mujoco>"""
    model = mjx.put_model(mujoco.MjModel.from_xml_string(xml))

    def one(position: Any, velocity: Any) -> Any:
        data = mjx.make_data(model).replace(qpos=position, qvel=velocity)
        data = lax.fori_loop(0, 4, lambda _, data: mjx.step(model, data), data)
        return data.qpos, data.qvel

    return jax.vmap(one), (_array(1024, model.nq), _array(1024, model.nv))


def pallas_flash_attention() -> _Step:
    """JAX: the gradients of its flash attention for TPU, between two products."""
    from jax.experimental.pallas.ops.tpu.flash_attention import flash_attention

    def loss(weights: Any, x: Any) -> jax.Array:
        q, k, v = (jnp.einsum("btd,dhk->bhtk", x, w) for w in weights["in"])
        return jnp.mean(jnp.einsum("bhtk,hkd->btd", flash_attention(q, k, v, causal=True), weights["out"]) ** 2)

    weights = {"in": [_array(1024, 8, 128, dtype=_BF16)] * 3, "out": _array(8, 128, 1024, dtype=_BF16)}
    return jax.value_and_grad(loss), (weights, _array(4, 1024, 1024, dtype=_BF16))


def pallas_megablox() -> _Step:
    """JAX: two layers of experts by its kernel for grouped products."""
    from jax.experimental.pallas.ops.tpu.megablox import gmm

    def experts(x: Any, layers: Any, sizes: Any) -> Any:
        for up, down in layers:
            h = jax.nn.silu(gmm(x, up, sizes, preferred_element_type=_BF16))
            x = x + gmm(h, down, sizes, preferred_element_type=_BF16)
        return x

    layer = (_array(8, 1024, 2048, dtype=_BF16), _array(8, 2048, 1024, dtype=_BF16))
    return experts, (_array(4096, 1024, dtype=_BF16), [layer] * 2, _array(8, dtype=_I32))
