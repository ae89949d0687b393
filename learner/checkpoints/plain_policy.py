"""Parameters of a policy file as NumPy arrays, read without JAX: solvers need no more."""

from pathlib import Path
from typing import Any

import msgpack
import numpy as np

from ...env.errors import FormatError
from ...env.storage.gunzip import gunzip

FORMAT = "mallocmuzero-policy"
FORMAT_VERSION = 1
# Far above the unpacked size of any real policy, and small enough that a hostile file cannot exhaust memory.
MOST_BYTES = 256 * 2**20
# The type under which flax packs an array: shape, name of the dtype, bytes.
_ARRAY = 1
_DTYPES = ("float16", "float32")


def read_plain_parameters(path: str | Path) -> dict[str, Any]:
    """Returns the parameters in a policy file, float32, by part and name.

    Raises:
      UserError: there is no such file.
      FormatError: it is no policy of this version.
    """
    data = gunzip(Path(path), MOST_BYTES, "policy")
    try:
        document = msgpack.unpackb(data, ext_hook=_array, raw=False)
        parameters = document["parameters"]
        known = document["format"] == FORMAT and document["format_version"] == FORMAT_VERSION
    except (ValueError, TypeError, KeyError, msgpack.UnpackException, RecursionError) as error:
        raise FormatError(
            f"{path}: is no policy file ({type(error).__name__}); check the path, or get the file again"
        ) from error
    if not known or not isinstance(parameters, dict):
        raise FormatError(f"{path}: is no policy of version {FORMAT_VERSION}; export the run again with this version")
    return _floats(parameters, Path(path))


def _array(code: int, data: bytes) -> Any:
    if code != _ARRAY:
        raise ValueError(f"type {code} is none of a policy's")
    shape, name, content = msgpack.unpackb(data, raw=True)
    if name.decode() not in _DTYPES:
        raise ValueError(f"numbers of type {name!r}")
    return np.frombuffer(content, np.dtype(name.decode())).reshape(shape)


def _floats(parameters: dict[str, Any], path: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, part in parameters.items():
        if isinstance(part, dict):
            found[name] = _floats(part, path)
        elif isinstance(part, np.ndarray) and np.isfinite(part).all():
            found[name] = part.astype(np.float32)
        else:
            raise FormatError(f"{path}: field `parameters`: {name:.60} is no array of numbers; export the run again")
    return found
