"""Variational autoencoder of latent diffusion: the Flax model of `diffusers`."""

from typing import Any

from .common import Described, array, half, squared_error, training_step


def vae_decode_b4() -> Described:
    """Latents 32 x 32 to images of 256 x 256 pixels, batch 4."""
    model, params = _model()

    def f(params: Any, latents: Any) -> Any:
        return model.apply({"params": params}, latents, method=model.decode).sample

    return f, (params, array((4, 4, 32, 32)))


def vae_train_b2() -> Described:
    """Training step on images of 128 x 128 pixels, batch 2, without the adversarial part."""
    model, params = _model()

    def loss(params: Any, images: Any) -> Any:
        return squared_error(model.apply({"params": params}, images).sample, images)

    return training_step(loss, params, array((2, 3, 128, 128)))


def _model() -> tuple[Any, Any]:
    import jax
    import jax.numpy as jnp
    from diffusers import FlaxAutoencoderKL

    model = FlaxAutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        block_out_channels=(64, 128, 256, 256),
        layers_per_block=1,
        latent_channels=4,
        sample_size=128,
        dtype=jnp.bfloat16,
    )
    return model, half(jax.eval_shape(lambda: model.init_weights(jax.random.PRNGKey(0))))
