"""The network that a stored file describes, its sizes bounded before anything is allocated."""

import functools
import math
from dataclasses import asdict
from typing import Any

import jax

from ...env.errors import FormatError, UserError
from ..networks.network import Network, NetworkConfig

# Far above any network that plays on a processor, and small enough that a hostile file cannot exhaust memory.
MOST_PARAMETERS = 2**27
_LARGEST = {
    "observation_size": 2**20,
    "num_actions": 2**12,
    "width": 2**14,
    "projection_width": 2**14,
    "representation_blocks": 64,
    "dynamics_blocks": 64,
    "prediction_blocks": 64,
}
_MOST_BINS = 2**14
_MOST_CONVOLUTIONS = 16


def stored_network(values: Any, where: str) -> Network:
    """Returns the network of a configuration that `NetworkConfig.to_json` wrote.

    Args:
      values: the value in the file, whatever it is.
      where: file and field, for the message.

    Raises:
      FormatError: it describes no network, or one too large to be real.
    """
    if not isinstance(values, dict):
        raise FormatError(f"{where} is no network configuration; use another file")
    try:
        config = NetworkConfig.from_json(values)
        _check(config, where)
        network = Network(config)
        shapes = jax.tree.leaves(parameter_shapes(config))
    except FormatError:
        raise
    except (UserError, ValueError, TypeError, AttributeError, KeyError, OverflowError, ZeroDivisionError) as error:
        raise FormatError(f"{where} is no network configuration ({_first_line(error)}); use another file") from error
    if sum(math.prod(leaf.shape) for leaf in shapes) > MOST_PARAMETERS:
        raise FormatError(f"{where} has more than {MOST_PARAMETERS} parameters; use another file")
    return network


@functools.lru_cache(maxsize=64)
def parameter_shapes(config: NetworkConfig) -> Any:
    """Returns the tree of `Network.init` with shapes for arrays. Cached: callers must not change it."""
    return jax.eval_shape(Network(config).init, jax.random.PRNGKey(0))


def _check(config: NetworkConfig, where: str) -> None:
    for name, largest in _LARGEST.items():
        value = getattr(config, name)
        if type(value) is not int or value > largest:
            raise FormatError(f"{where}: {name} is {value!r:.40}; the largest is {largest}; use another file")
    for name in ("grid", "grid_channels"):
        sizes = getattr(config, name)
        if sizes is not None and (
            len(sizes) > _MOST_CONVOLUTIONS
            or not all(type(size) is int and 0 < size <= _LARGEST["num_actions"] for size in sizes)
        ):
            raise FormatError(f"{where}: {name} is {sizes!r:.40}; use another file")
    if config.grid_channels is None:
        raise FormatError(f"{where}: grid_channels is missing; use another file")
    for name in ("value", "reward"):
        codec = asdict(getattr(config, name))
        if type(codec["bins"]) is not int or codec["bins"] > _MOST_BINS:
            raise FormatError(f"{where}: {name}.bins is {codec['bins']!r:.40}; use another file")
        if not all(type(codec[field]) in (int, float) for field in ("limit", "scale")):
            raise FormatError(f"{where}: {name} is {codec!r:.80}; use another file")


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:200]
