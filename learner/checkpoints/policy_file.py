"""Policy files: a network's parameters and their origin in one small file, for playing without training.

A file is gzipped msgpack: `format`, `format_version`, `network` and `info` as JSON text, `parameters`. Parameters are
stored in half precision and are used as stored, so a measurement of a policy is one of its file.
"""

import gzip
import json
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import serialization

from ...env.errors import FormatError
from ...env.storage.atomic import write_atomically
from ...env.storage.gunzip import gunzip
from ..networks.network import Network, Params
from .plain_policy import FORMAT, FORMAT_VERSION, MOST_BYTES
from .stored_network import parameter_shapes, stored_network

# Parts of the network that only training uses.
_TRAINING_ONLY = ("projection", "projection_predictor")
# Errors of msgpack and flax for bytes that are no message of theirs.
_MALFORMED = (
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    OverflowError,
    RecursionError,
    MemoryError,
    AssertionError,
)


class Policy(NamedTuple):
    """A network that can play.

    Attributes:
      network: the network.
      params: its parameters, float32. Parts that only training uses are fresh.
      info: its origin, as plain JSON values.
    """

    network: Network
    params: Params
    info: dict[str, Any]


def write_policy(path: str | Path, network: Network, params: Params, info: dict[str, Any]) -> None:
    """Writes a policy. Raises UserError if it cannot be written."""
    kept = {name: part for name, part in jax.device_get(params).items() if name not in _TRAINING_ONLY}
    halves = jax.tree.map(lambda leaf: np.asarray(leaf, np.float16), kept)
    document = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        # Text keeps Python's numbers exactly.
        "network": json.dumps(network.config.to_json()),
        "info": json.dumps(info),
        "parameters": halves,
    }
    write_atomically(Path(path), gzip.compress(serialization.msgpack_serialize(document), mtime=0))


def read_policy(path: str | Path) -> Policy:
    """Reads what `write_policy` wrote.

    Raises:
      UserError: there is no such file.
      FormatError: it is no policy of this version.
    """
    document = _unpack(Path(path))
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise FormatError(f"{path}: field `format` is not {FORMAT}; check the path")
    version = document.get("format_version")
    if type(version) is not int or version != FORMAT_VERSION:
        raise FormatError(
            f"{path}: format_version is {version!r:.20}, this code reads {FORMAT_VERSION}; export the "
            "run again with this version"
        )
    network = stored_network(_json(path, document, "network"), f"{path}: field `network`")
    info = _json(path, document, "info")
    parts = document.get("parameters")
    if not isinstance(info, dict) or not isinstance(parts, dict):
        raise FormatError(f"{path}: field `info` or `parameters` is missing or malformed; export the run again")
    shapes = parameter_shapes(network.config)
    for name in sorted({*shapes, *map(str, parts)} - set(_TRAINING_ONLY)):
        if name not in shapes or not _fits(parts.get(name), shapes[name]):
            raise FormatError(f"{path}: field `parameters`: {name:.60} does not fit the network; export the run again")
    params = network.init(jax.random.PRNGKey(0))
    for name in set(shapes) - set(_TRAINING_ONLY):
        params[name] = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), parts[name])
    return Policy(network, params, info)


def _unpack(path: Path) -> Any:
    """Returns the message in a file of bounded size, whatever it is. Raises UserError or FormatError."""
    data = gunzip(path, MOST_BYTES, "policy")
    try:
        return serialization.msgpack_restore(data)
    except _MALFORMED as error:
        raise FormatError(
            f"{path}: is no policy file ({type(error).__name__}); check the path, or get the file again"
        ) from error


def _json(path: str | Path, document: dict[str, Any], field: str) -> Any:
    text = document.get(field)
    try:
        return json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: field `{field}` is no JSON; export the run again") from error


def _fits(part: Any, shapes: Any) -> bool:
    """Returns whether a part of the parameters has the names and shapes of `shapes`, and finite numbers."""
    if isinstance(shapes, dict):
        return (
            isinstance(part, dict)
            and part.keys() == shapes.keys()
            and all(_fits(part[name], shape) for name, shape in shapes.items())
        )
    return (
        isinstance(part, np.ndarray)
        and part.dtype in (np.float16, np.float32)
        and part.shape == shapes.shape
        and bool(np.all(np.isfinite(part)))
    )
