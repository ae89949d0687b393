"""The models behind the committed programs.

This file runs in the capture environment (jax, flax, optax, transformers, diffusers), where the rest of this package
is not installed. Every public function takes no argument and returns what to compile and its abstract arguments: no
weights are made or fetched.
"""

from typing import Any

# Side of the U-Nets' latent images: 256 x 256 pixels. Attention over larger ones makes tensors no fast memory holds.
_LATENT = 32


def tiny() -> tuple[Any, tuple[Any, ...]]:
    """Twelve small layers with long skip connections: 24 MiB activations that do not all fit."""
    import jax

    def f(x: Any, ws: Any) -> Any:
        skips = []
        for w in ws[:6]:
            x = jax.nn.relu(x @ w)
            skips.append(x)
        for w, skip in zip(ws[6:], reversed(skips), strict=True):
            x = jax.nn.relu((x * skip) @ w)
        return x

    return f, (_array((49152, 256)), [_array((256, 256))] * 12)


def resnet50_b128() -> tuple[Any, tuple[Any, ...]]:
    """ResNet-50 inference, batch 128."""
    return _resnet50(128)


def resnet50_b32() -> tuple[Any, tuple[Any, ...]]:
    """ResNet-50 inference, batch 32."""
    return _resnet50(32)


def unet_b2() -> tuple[Any, tuple[Any, ...]]:
    """Diffusion U-Net inference, batch 2."""
    model = _unet((128, 256, 512, 512))

    def f(params: Any, x: Any, t: Any, ctx: Any) -> Any:
        return model.apply({"params": params}, x, t, ctx).sample

    return f, _unet_arguments(model, 2)


def unet_train_b2() -> tuple[Any, tuple[Any, ...]]:
    """Training step of a smaller diffusion U-Net, batch 2."""
    import jax.numpy as jnp

    model = _unet((64, 128, 256, 256))
    params, x, t, ctx = _unet_arguments(model, 2)

    def loss(params: Any, x: Any, t: Any, ctx: Any, noise: Any) -> Any:
        predicted = model.apply({"params": params}, x, t, ctx).sample
        return jnp.mean((predicted.astype(jnp.float32) - noise.astype(jnp.float32)) ** 2)

    return _training_step(loss, params, x, t, ctx, x)


def bert_train_b8() -> tuple[Any, tuple[Any, ...]]:
    """Training step of BERT-base (masked language model), batch 8, length 128."""
    import jax
    import jax.numpy as jnp
    from transformers import BertConfig, FlaxBertForMaskedLM

    config = BertConfig(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    model = FlaxBertForMaskedLM(config, _do_init=False, dtype=jnp.bfloat16)
    params = _half(jax.eval_shape(lambda: model.init_weights(jax.random.PRNGKey(0), (1, 128))))

    def loss(params: Any, ids: Any, mask: Any, labels: Any) -> Any:
        logits = model(ids, attention_mask=mask, params=params, train=False).logits.astype(jnp.float32)
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], -1))

    ids = _array((8, 128), "int32")
    return _training_step(loss, params, ids, ids, ids)


def gpt2_b4_s512() -> tuple[Any, tuple[Any, ...]]:
    """GPT-2 inference, batch 4, length 512."""
    import jax
    import jax.numpy as jnp
    from transformers import FlaxGPT2LMHeadModel, GPT2Config

    model = FlaxGPT2LMHeadModel(GPT2Config(), _do_init=False, dtype=jnp.bfloat16)
    params = _half(jax.eval_shape(lambda: model.init_weights(jax.random.PRNGKey(0), (1, 128))))

    def f(params: Any, ids: Any) -> Any:
        return model(ids, params=params, train=False).logits

    return f, (params, _array((4, 512), "int32"))


def _array(shape: tuple[int, ...], dtype: str = "bfloat16") -> Any:
    import jax
    import jax.numpy as jnp

    return jax.ShapeDtypeStruct(shape, jnp.dtype(dtype))


def _half(tree: Any) -> Any:
    """Returns the tree with 32-bit floats made bfloat16."""
    import jax
    import jax.numpy as jnp

    def half(leaf: Any) -> Any:
        return jax.ShapeDtypeStruct(leaf.shape, jnp.bfloat16 if leaf.dtype == jnp.float32 else leaf.dtype)

    return jax.tree.map(half, tree)


def _resnet50(batch: int) -> tuple[Any, tuple[Any, ...]]:
    import jax
    import jax.numpy as jnp
    from transformers import FlaxResNetForImageClassification, ResNetConfig

    model = FlaxResNetForImageClassification(ResNetConfig(num_labels=1000), _do_init=False, dtype=jnp.bfloat16)
    params = jax.eval_shape(lambda: model.init_weights(jax.random.PRNGKey(0), (1, 224, 224, 3)))

    def f(params: Any, images: Any) -> Any:
        return model(images, params=params, train=False).logits

    return f, (_half(params), _array((batch, 3, 224, 224)))


def _unet(channels: tuple[int, ...]) -> Any:
    import jax.numpy as jnp
    from diffusers import FlaxUNet2DConditionModel

    return FlaxUNet2DConditionModel(
        sample_size=_LATENT,
        in_channels=4,
        out_channels=4,
        block_out_channels=channels,
        layers_per_block=1,
        attention_head_dim=8,
        cross_attention_dim=768,
        dtype=jnp.bfloat16,
    )


def _unet_arguments(model: Any, batch: int) -> tuple[Any, ...]:
    import jax

    params = _half(jax.eval_shape(lambda: model.init_weights(jax.random.PRNGKey(0))))
    return params, _array((batch, 4, _LATENT, _LATENT)), _array((batch,), "int32"), _array((batch, 77, 768))


def _training_step(loss: Any, params: Any, *batch: Any) -> tuple[Any, tuple[Any, ...]]:
    """Returns one step of gradient descent with momentum, and its arguments."""
    import jax
    import optax

    optimizer = optax.sgd(1e-2, momentum=0.9)

    def step(params: Any, state: Any, *batch: Any) -> Any:
        value, gradient = jax.value_and_grad(loss)(params, *batch)
        updates, state = optimizer.update(gradient, state, params)
        return optax.apply_updates(params, updates), state, value

    return step, (params, jax.eval_shape(optimizer.init, params), *batch)
