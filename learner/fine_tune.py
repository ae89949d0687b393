"""A few steps on the policy head's loss alone: what a policy learns of one program while it is being solved."""

import functools
import time
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from .networks.network import Network, Params


class Lessons(NamedTuple):
    """Decisions and what the policy is to say of them, `N` of them.

    Attributes:
      observation: `[N, D]` float32.
      legal: `[N, A]` bool.
      policy: `[N, A]` float32, zero on illegal moves.
    """

    observation: NDArray[np.float32]
    legal: NDArray[np.bool_]
    policy: NDArray[np.float32]


class FineTuner:
    """Trains a copy of a policy on lessons; the first parameters are left alone."""

    def __init__(
        self, network: Network, params: Params, learning_rate: float = 3e-4, dropout: float = 0.1, batch_size: int = 64
    ) -> None:
        """Begins at `params`.

        Args:
          network: the network.
          params: its parameters.
          learning_rate: of Adam.
          dropout: chance that a number of an observation is hidden, as `LearnerConfig.observation_dropout`.
          batch_size: rows of a step, drawn anew from all lessons.
        """
        self.params = params
        self._network, self._dropout, self._batch_size = network, dropout, batch_size
        self._optimiser = _adam(learning_rate)
        self._state = self._optimiser.init(params)
        self._key = jax.random.PRNGKey(0)

    def compile(self) -> float:
        """Has a step compiled, before any clock runs; returns the seconds that one takes then."""
        kept = self.params, self._state, self._key
        size, moves = self._network.config.observation_size, self._network.config.num_actions
        nothing = Lessons(
            np.zeros((1, size), np.float32), np.ones((1, moves), np.bool_), np.full((1, moves), 1 / moves, np.float32)
        )
        self.learn(nothing, 2, np.random.default_rng(0))  # the second one begins at what a step returns
        begin = time.perf_counter()
        self.learn(nothing, 1, np.random.default_rng(0))
        seconds = time.perf_counter() - begin
        self.params, self._state, self._key = kept
        return seconds

    def learn(self, lessons: Lessons, steps: int, generator: np.random.Generator) -> float:
        """Takes `steps` steps; returns the mean loss of them."""
        total = 0.0
        for _ in range(steps):
            rows = generator.integers(len(lessons.legal), size=self._batch_size)
            self._key, key = jax.random.split(self._key)
            self.params, self._state, loss = _step(
                self._network,
                self._optimiser,
                self._dropout,
                self.params,
                self._state,
                key,
                *(part[rows] for part in lessons),
            )
            total += float(loss)
        return total / max(steps, 1)


@functools.cache
def _adam(learning_rate: float) -> optax.GradientTransformation:
    """One object per rate, so that its steps are compiled once."""
    return optax.adam(learning_rate)


@functools.partial(jax.jit, static_argnames=("network", "optimiser", "dropout"))
def _step(
    network: Network,
    optimiser: optax.GradientTransformation,
    dropout: float,
    params: Params,
    state: optax.OptState,
    key: jax.Array,
    observation: jax.Array,
    legal: jax.Array,
    policy: jax.Array,
) -> tuple[Params, optax.OptState, jax.Array]:
    seen = observation * jax.random.bernoulli(key, 1.0 - dropout, observation.shape)

    def loss_of(params: Params) -> jax.Array:
        logits = network.initial_inference(params, seen).policy_logits
        log_policy = jax.nn.log_softmax(jnp.where(legal, logits, -1e9), axis=-1)
        return -jnp.mean(jnp.sum(policy * log_policy, axis=-1))

    loss, gradients = jax.value_and_grad(loss_of)(params)
    updates, state = optimiser.update(gradients, state, params)
    return optax.apply_updates(params, updates), state, loss
