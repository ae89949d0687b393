"""Fine-tuning of the policy head alone: a few gradient steps on a copy of a policy, while a program is being solved.

Shapes: `N` rows, `D` observation size, `A` actions.
"""

import functools
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from .networks.network import Network, Params


class FineTuner:
    """Trains a copy of a policy; the parameters it begins with stay as they are.

    Attributes:
      params: the parameters after the last step.
    """

    def __init__(
        self,
        network: Network,
        params: Params,
        *,
        learning_rate: float = 3e-4,
        dropout: float = 0.1,
        batch_size: int = 64,
    ) -> None:
        """Begins at `params`.

        Args:
          network: the network.
          params: its parameters.
          learning_rate: of Adam.
          dropout: chance that an entry of an observation is set to zero, as `LearnerConfig.observation_dropout`.
          batch_size: rows of a step, drawn with replacement from all rows.
        """
        self.params = params
        self._network, self._dropout, self._batch_size = network, dropout, batch_size
        self._optimiser = _adam(learning_rate)
        self._state = self._optimiser.init(params)
        self._key = jax.random.PRNGKey(0)

    def compile(self) -> float:
        """Compiles a step and leaves parameters and randomness as they were; returns the seconds that a step takes."""
        kept = self.params, self._state, self._key
        size, moves = self._network.config.observation_size, self._network.config.num_actions
        row = (
            np.zeros((1, size), np.float32),
            np.ones((1, moves), np.bool_),
            np.full((1, moves), 1 / moves, np.float32),
        )
        # Twice: the second step begins at what a step returns, which is compiled apart.
        self.learn(*row, steps=2, generator=np.random.default_rng(0))
        begin = time.perf_counter()
        self.learn(*row, steps=1, generator=np.random.default_rng(0))
        seconds = time.perf_counter() - begin
        self.params, self._state, self._key = kept
        return seconds

    def learn(
        self,
        observation: NDArray[np.float32],
        legal: NDArray[np.bool_],
        policy: NDArray[np.float32],
        *,
        steps: int,
        generator: np.random.Generator,
    ) -> float:
        """Takes `steps` steps on the cross-entropy of the policy head and returns their mean loss.

        Args:
          observation: `[N, D]`.
          legal: `[N, A]`.
          policy: `[N, A]` the targets, zero on illegal moves.
          steps: number of gradient steps.
          generator: draws the rows of each step.
        """
        total = 0.0
        for _ in range(steps):
            rows = generator.integers(len(legal), size=self._batch_size)
            self._key, key = jax.random.split(self._key)
            self.params, self._state, loss = _step(
                self._network,
                self._optimiser,
                self._dropout,
                self.params,
                self._state,
                key,
                observation[rows],
                legal[rows],
                policy[rows],
            )
            total += float(loss)
        return total / max(steps, 1)


@functools.cache
def _adam(learning_rate: float) -> optax.GradientTransformation:
    """Returns one optimiser per rate, so that its steps are compiled once."""
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
    """Returns parameters and optimiser state after one step, and the loss before it."""
    seen = observation * jax.random.bernoulli(key, 1.0 - dropout, observation.shape)

    def loss_of(params: Params) -> jax.Array:
        logits = network.initial_inference(params, seen).policy_logits
        log_policy = jax.nn.log_softmax(jnp.where(legal, logits, -1e9), axis=-1)
        return -jnp.mean(jnp.sum(policy * log_policy, axis=-1))

    loss, gradients = jax.value_and_grad(loss_of)(params)
    updates, state = optimiser.update(gradients, state, params)
    return optax.apply_updates(params, updates), state, loss
