"""The training state: everything that the learner carries from one update to the next."""

import flax.struct
import jax
import jax.numpy as jnp
import optax

from .networks.network import Network, Params


class TrainingState(flax.struct.PyTreeNode):
    """A pytree. Training that continues from a restored state repeats bit for bit.

    Attributes:
      params: parameters of the network.
      target_params: parameters of the target network.
      opt_state: state of the optimiser.
      step: `[]` int32, updates made. Also the version of `params`.
      key: `[2]` uint32, the random key of the next update.
    """

    params: Params
    target_params: Params
    opt_state: optax.OptState
    step: jax.Array
    key: jax.Array


def init_state(network: Network, optimiser: optax.GradientTransformation, key: jax.Array) -> TrainingState:
    """Returns the state before the first update."""
    init_key, state_key = jax.random.split(key)
    params = network.init(init_key)
    return TrainingState(
        params=params,
        target_params=params,
        opt_state=optimiser.init(params),
        step=jnp.zeros((), jnp.int32),
        key=state_key,
    )
