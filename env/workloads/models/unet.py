"""Diffusion: the Flax U-Net and image decoder of `diffusers`."""

from typing import Any

from .common import Described, array, half, squared_error, training_step

# Side of the U-Nets' latent images: 256 x 256 pixels. Attention over larger ones makes tensors no fast memory holds.
_LATENT = 32


def unet_b2() -> Described:
    """Diffusion U-Net inference, batch 2."""
    return _inference(2)


def unet_train_b2() -> Described:
    """Training step of a smaller diffusion U-Net, batch 2."""
    return _training(2, (64, 128, 256, 256))


def unet_train_b4() -> Described:
    """Training step of a smaller diffusion U-Net with three resolutions, batch 4."""
    return _training(4, (128, 256, 256))


def unet_64_train_b1() -> Described:
    """Training step of a diffusion U-Net with two blocks for each of four resolutions, batch 1, latents 64 x 64."""
    import jax
    import jax.numpy as jnp
    from diffusers import FlaxUNet2DConditionModel

    model = FlaxUNet2DConditionModel(
        sample_size=64,
        in_channels=4,
        out_channels=4,
        down_block_types=("CrossAttnDownBlock2D",) * 3 + ("DownBlock2D",),
        up_block_types=("UpBlock2D",) + ("CrossAttnUpBlock2D",) * 3,
        block_out_channels=(64, 128, 256, 256),
        layers_per_block=2,
        attention_head_dim=8,
        cross_attention_dim=768,
        dtype=jnp.bfloat16,
    )
    params = half(jax.eval_shape(lambda: model.init_weights(jax.random.PRNGKey(0))))

    def loss(params: Any, x: Any, t: Any, ctx: Any, noise: Any) -> Any:
        return squared_error(model.apply({"params": params}, x, t, ctx).sample, noise)

    x = array((1, 4, 64, 64))
    return training_step(loss, params, x, array((1,), "int32"), array((1, 77, 768)), x)


def _inference(batch: int) -> Described:
    model = _model((128, 256, 512, 512))

    def f(params: Any, x: Any, t: Any, ctx: Any) -> Any:
        return model.apply({"params": params}, x, t, ctx).sample

    return f, _arguments(model, batch)


def _training(batch: int, channels: tuple[int, ...]) -> Described:
    model = _model(channels)
    params, x, t, ctx = _arguments(model, batch)

    def loss(params: Any, x: Any, t: Any, ctx: Any, noise: Any) -> Any:
        return squared_error(model.apply({"params": params}, x, t, ctx).sample, noise)

    return training_step(loss, params, x, t, ctx, x)


def _model(channels: tuple[int, ...]) -> Any:
    import jax.numpy as jnp
    from diffusers import FlaxUNet2DConditionModel

    last = len(channels) - 1
    return FlaxUNet2DConditionModel(
        sample_size=_LATENT,
        in_channels=4,
        out_channels=4,
        down_block_types=("CrossAttnDownBlock2D",) * last + ("DownBlock2D",),
        up_block_types=("UpBlock2D",) + ("CrossAttnUpBlock2D",) * last,
        block_out_channels=channels,
        layers_per_block=1,
        attention_head_dim=8,
        cross_attention_dim=768,
        dtype=jnp.bfloat16,
    )


def _arguments(model: Any, batch: int) -> tuple[Any, ...]:
    import jax

    params = half(jax.eval_shape(lambda: model.init_weights(jax.random.PRNGKey(0))))
    return params, array((batch, 4, _LATENT, _LATENT)), array((batch,), "int32"), array((batch, 77, 768))
