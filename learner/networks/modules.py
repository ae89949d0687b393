"""The flax modules of `Network`: representation, dynamics, prediction and projection.

Shapes: `D` observation size, `W` width of the latent state, `A` actions.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp

_LATENT_EPSILON = 1e-3  # the smallest range that is stretched to [0, 1]; stretching a smaller one would amplify noise


def normalise_latent(latent: jax.Array) -> jax.Array:
    """Scales each latent vector `[..., W]` to `[0, 1]` (MuZero, appendix G), leaving nearly constant ones alone."""
    low = jnp.min(latent, axis=-1, keepdims=True)
    high = jnp.max(latent, axis=-1, keepdims=True)
    return (latent - low) / jnp.maximum(high - low, _LATENT_EPSILON)


class ResidualBlock(nn.Module):
    """Pre-activation residual block of two dense layers: `[..., W] -> [..., W]`."""

    @nn.compact
    def __call__(self, inputs: jax.Array) -> jax.Array:
        width = inputs.shape[-1]
        hidden = nn.relu(nn.LayerNorm(name="norm_1")(inputs))
        hidden = nn.Dense(width, name="dense_1")(hidden)
        hidden = nn.relu(nn.LayerNorm(name="norm_2")(hidden))
        return inputs + nn.Dense(width, name="dense_2")(hidden)


class Head(nn.Module):
    """Output layer whose weights begin at zero: `[..., W] -> [..., outputs]`."""

    outputs: int

    @nn.compact
    def __call__(self, inputs: jax.Array) -> jax.Array:
        hidden = nn.relu(nn.LayerNorm(name="norm")(inputs))
        return nn.Dense(self.outputs, kernel_init=nn.initializers.zeros_init(), name="dense")(hidden)


class GridEncoder(nn.Module):
    """Encoder of the observation's image: `[B, H, W, C] -> [B, features]`; each layer halves height and width."""

    channels: tuple[int, ...]

    @nn.compact
    def __call__(self, grid: jax.Array) -> jax.Array:
        for index, channels in enumerate(self.channels):
            grid = nn.relu(nn.Conv(channels, (3, 3), strides=(2, 2), name=f"conv_{index}")(grid))
        return grid.reshape(grid.shape[0], -1)


class Representation(nn.Module):
    """Observations `[B, D]` to latent states `[B, W]`.

    With `grid`, the first `H * W * C` numbers are an image in row-major `[H, W, C]` order and pass a small
    convolutional encoder; the other numbers join its features.
    """

    grid: tuple[int, int, int] | None
    grid_channels: tuple[int, ...]
    width: int
    blocks: int

    @nn.compact
    def __call__(self, observation: jax.Array) -> jax.Array:
        features = observation
        if self.grid is not None:
            height, width, channels = self.grid
            image, rest = jnp.split(observation, [height * width * channels], axis=-1)
            encoded = GridEncoder(self.grid_channels, name="grid")(image.reshape(-1, height, width, channels))
            features = jnp.concatenate([encoded, rest], axis=-1)
        hidden = nn.Dense(self.width, name="input")(features)
        for index in range(self.blocks):
            hidden = ResidualBlock(name=f"block_{index}")(hidden)
        return normalise_latent(hidden)


class Dynamics(nn.Module):
    """Latent states `[B, W]` and actions `[B]` to next latent states `[B, W]` and reward logits `[B, bins]`."""

    num_actions: int
    blocks: int
    reward_bins: int

    @nn.compact
    def __call__(self, latent: jax.Array, action: jax.Array) -> tuple[jax.Array, jax.Array]:
        move = nn.Dense(latent.shape[-1], use_bias=False, name="action")(jax.nn.one_hot(action, self.num_actions))
        hidden = latent + move
        for index in range(self.blocks):
            hidden = ResidualBlock(name=f"block_{index}")(hidden)
        reward_logits = Head(self.reward_bins, name="reward")(hidden)
        return normalise_latent(hidden), reward_logits


class Prediction(nn.Module):
    """Latent states `[..., W]` to policy logits `[..., A]` and value logits `[..., bins]`."""

    num_actions: int
    blocks: int
    value_bins: int

    @nn.compact
    def __call__(self, latent: jax.Array) -> tuple[jax.Array, jax.Array]:
        hidden = latent
        for index in range(self.blocks):
            hidden = ResidualBlock(name=f"block_{index}")(hidden)
        return Head(self.num_actions, name="policy")(hidden), Head(self.value_bins, name="value")(hidden)


class Projection(nn.Module):
    """Latent states `[..., W]` to the space of the consistency loss (EfficientZero, arXiv 2111.00210, section 4.1)."""

    width: int

    @nn.compact
    def __call__(self, latent: jax.Array) -> jax.Array:
        hidden = nn.Dense(self.width, name="dense_1")(latent)
        hidden = nn.relu(nn.LayerNorm(name="norm")(hidden))
        return nn.Dense(self.width, name="dense_2")(hidden)


class MuZeroModule(nn.Module):
    """All parts under one parameter tree; `Network` calls them one by one."""

    grid: tuple[int, int, int] | None
    grid_channels: tuple[int, ...]
    num_actions: int
    width: int
    representation_blocks: int
    dynamics_blocks: int
    prediction_blocks: int
    projection_width: int
    reward_bins: int
    value_bins: int

    def setup(self) -> None:
        self.representation = Representation(self.grid, self.grid_channels, self.width, self.representation_blocks)
        self.dynamics = Dynamics(self.num_actions, self.dynamics_blocks, self.reward_bins)
        self.prediction = Prediction(self.num_actions, self.prediction_blocks, self.value_bins)
        self.projection = Projection(self.projection_width)
        self.projection_predictor = Projection(self.projection_width)

    def everything(self, observation: jax.Array, action: jax.Array) -> tuple[jax.Array, ...]:
        """Calls every part, so that `init` makes all parameters."""
        latent, reward_logits = self.transition(self.represent(observation), action)
        return reward_logits, *self.predict(latent), self.project_online(latent)

    def represent(self, observation: jax.Array) -> jax.Array:
        return self.representation(observation)

    def transition(self, latent: jax.Array, action: jax.Array) -> tuple[jax.Array, jax.Array]:
        return self.dynamics(latent, action)

    def predict(self, latent: jax.Array) -> tuple[jax.Array, jax.Array]:
        return self.prediction(latent)

    def project(self, latent: jax.Array) -> jax.Array:
        return self.projection(latent)

    def project_online(self, latent: jax.Array) -> jax.Array:
        return self.projection_predictor(self.projection(latent))
