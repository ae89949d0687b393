"""The network as pure functions of its parameters, for search and learner.

Shapes: `B` batch, `D` observation size, `W` width of the latent state, `A` actions.
"""

import dataclasses
import hashlib
import json
import math
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ...env.errors import UserError
from .candidate_modules import CandidateModule
from .codec import ScalarCodec
from .modules import MuZeroModule

Params = dict[str, Any]


@dataclass(frozen=True)
class NetworkConfig:
    """Sizes of the network: everything that a checkpoint must agree on, and nothing else.

    Attributes:
      observation_size: `D`, length of the flat float32 observation.
      num_actions: `A`.
      grid: `(height, width, channels)` of the image that the observation starts with, row-major, or None.
      grid_channels: channels of the stride-2 convolutions that read the image.
      width: `W`, width of the latent state and of every hidden layer.
      representation_blocks, dynamics_blocks, prediction_blocks: residual blocks in each part. Those of dynamics and
        prediction run once per simulation and set the speed of the search.
      projection_width: width of the heads of the consistency loss, used in training only.
      candidates: 0 for moves that mean the same in every position; `K` for a choice among `K` candidates, which the
        observation begins with, and the last action, to stop (`candidate_modules.py`). Grid and blocks are not used
        then.
      candidate_size: features of a candidate.
      candidate_width: width of a candidate in the latent state; `width` is that of what is common to all.
      value: codec of the value head, in units of the episode's return.
      reward: codec of the reward head. Single rewards are far smaller than returns, hence the finer support.
    """

    observation_size: int
    num_actions: int = 3
    grid: tuple[int, int, int] | None = None
    grid_channels: tuple[int, ...] = (16, 32, 32)
    width: int = 256
    representation_blocks: int = 1
    dynamics_blocks: int = 1
    prediction_blocks: int = 1
    projection_width: int = 256
    candidates: int = 0
    candidate_size: int = 0
    candidate_width: int = 48
    value: ScalarCodec = field(default_factory=lambda: ScalarCodec(limit=20.0, scale=0.3))
    reward: ScalarCodec = field(default_factory=lambda: ScalarCodec(limit=5.0, scale=0.01))

    def __post_init__(self) -> None:
        for name in ("observation_size", "num_actions", "width", "projection_width"):
            if getattr(self, name) < 1:
                raise UserError(f"network: {name} must be at least 1, not {getattr(self, name)}")
        for name in ("representation_blocks", "dynamics_blocks", "prediction_blocks"):
            if getattr(self, name) < 0:
                raise UserError(f"network: {name} must not be negative, not {getattr(self, name)}")
        if self.candidates:
            if self.num_actions != self.candidates + 1:
                raise UserError(f"network: {self.candidates} candidates make {self.candidates + 1} actions")
            if self.candidate_size < 1 or self.candidates * self.candidate_size > self.observation_size:
                raise UserError(
                    f"network: {self.candidates} candidates of size {self.candidate_size} do not fit an observation of "
                    f"{self.observation_size}"
                )
        if self.grid is not None:
            if len(self.grid) != 3 or min(self.grid) < 1:
                raise UserError(f"network: grid must be (height, width, channels), not {self.grid}")
            if math.prod(self.grid) > self.observation_size:
                raise UserError(f"network: grid {self.grid} is larger than observation_size {self.observation_size}")

    def to_json(self) -> dict[str, Any]:
        """Returns a dictionary of plain values, which `from_json` reads back."""
        plain: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self)))
        if not self.candidates:
            for name in ("candidates", "candidate_size", "candidate_width"):
                del plain[name]
        return plain

    @property
    def latent_size(self) -> int:
        """`W`, numbers of a latent state."""
        return self.width + self.candidates * self.candidate_width

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "NetworkConfig":
        """Returns the configuration that `to_json` wrote. Raises UserError if a field is unknown or missing."""
        values = dict(values)
        try:
            for name in ("value", "reward"):
                if name in values:
                    values[name] = ScalarCodec(**values[name])
            for name in ("grid", "grid_channels"):
                if values.get(name) is not None:
                    values[name] = tuple(values[name])
            return cls(**values)
        except TypeError as error:
            raise UserError(f"network: not a network configuration: {error}") from error

    @cached_property
    def sha256(self) -> str:
        """The hash of the configuration; parameters fit a network if and only if it is the same."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()


class NetworkOutput(NamedTuple):
    """The network's predictions for a batch of latent states.

    latent: `[B, W]`.
    reward: `[B]` reward of the transition into the state; zero from `initial_inference`.
    value: `[B]` discounted return from the state on.
    policy_logits: `[B, A]`; illegal moves are not masked.
    """

    latent: jax.Array
    reward: jax.Array
    value: jax.Array
    policy_logits: jax.Array


@dataclass(frozen=True)
class Network:
    """The network's functions of its parameters. Hashable, so that it can be a static argument of `jax.jit`."""

    config: NetworkConfig

    @cached_property
    def _module(self) -> MuZeroModule | CandidateModule:
        config = self.config
        if config.candidates:
            return CandidateModule(
                candidates=config.candidates,
                features=config.candidate_size,
                width=config.candidate_width,
                common=config.width,
                hidden=2 * config.candidate_width,
                projection_width=config.projection_width,
                reward_bins=config.reward.bins,
                value_bins=config.value.bins,
            )
        return MuZeroModule(
            grid=config.grid,
            grid_channels=config.grid_channels,
            num_actions=config.num_actions,
            width=config.width,
            representation_blocks=config.representation_blocks,
            dynamics_blocks=config.dynamics_blocks,
            prediction_blocks=config.prediction_blocks,
            projection_width=config.projection_width,
            reward_bins=config.reward.bins,
            value_bins=config.value.bins,
        )

    def init(self, key: jax.Array) -> Params:
        """Returns fresh parameters. Value and reward start at zero, the policy uniform."""
        return _fresh(self, key)

    def initial_inference(self, params: Params, observation: jax.Array) -> NetworkOutput:
        """Maps observations `[B, D]` to predictions."""
        latent = self.represent(params, observation)
        policy_logits, value_logits = self.predict(params, latent)
        value = self.config.value.decode(value_logits)
        return NetworkOutput(latent, jnp.zeros_like(value), value, policy_logits)

    def recurrent_inference(self, params: Params, latent: jax.Array, action: jax.Array) -> NetworkOutput:
        """Maps latent states `[B, W]` and actions `[B]` int32 to predictions for the states that follow."""
        latent, reward_logits = self.transition(params, latent, action)
        policy_logits, value_logits = self.predict(params, latent)
        reward = self.config.reward.decode(reward_logits)
        return NetworkOutput(latent, reward, self.config.value.decode(value_logits), policy_logits)

    def represent(self, params: Params, observation: jax.Array) -> jax.Array:
        """Maps observations `[B, D]` to latent states `[B, W]`."""
        return self._apply(params, "represent", observation)

    def transition(self, params: Params, latent: jax.Array, action: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Maps latent states `[B, W]` and actions `[B]` to the next latent states and reward logits `[B, bins]`."""
        return self._apply(params, "transition", latent, action)

    def predict(self, params: Params, latent: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Maps latent states `[..., W]` to policy logits `[..., A]` and value logits `[..., bins]`."""
        return self._apply(params, "predict", latent)

    def project(self, params: Params, latent: jax.Array, online: bool) -> jax.Array:
        """Maps latent states `[..., W]` to the space of the consistency loss; `online` adds the predictor head."""
        return self._apply(params, "project_online" if online else "project", latent)

    def outcomes(self, params: Params, latent: jax.Array) -> jax.Array:
        """Maps latent states `[..., W]` to the predicted gain of each candidate and the logit of the chance that there
        is one, `[..., K, 2]`."""
        return self._apply(params, "score_latent", latent)

    def score(self, params: Params, features: jax.Array) -> jax.Array:
        """Maps candidates `[..., F]`, each by itself, to what `outcomes` predicts for them, `[..., 2]`."""
        return self._apply(params, "score", features)

    def _apply(self, params: Params, method: str, *inputs: jax.Array) -> Any:
        return self._module.apply({"params": params}, *inputs, method=method)


@partial(jax.jit, static_argnames=("network",))
def _fresh(network: Network, key: jax.Array) -> Params:
    """Returns fresh parameters; compiled once for all equal networks."""
    observation = jnp.zeros((1, network.config.observation_size))
    action = jnp.zeros((1,), jnp.int32)
    params: Params = network._module.init(key, observation, action, method="everything")["params"]
    return params
