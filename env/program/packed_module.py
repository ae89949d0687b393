"""Packs the lowered module of a program into a field of its file, so that it can be compiled again without its source.

The module is a portable artifact of StableHLO, compressed with xz and written in base64. Unpacking has limits of size
and memory, since a file may come from anywhere.
"""

import base64
import binascii
import hashlib
import lzma
from typing import Any

from ..errors import FormatError, UserError

FORMAT = "stablehlo-portable-artifact"
MAX_MODULE_BYTES = 32 * 2**20
# Limit of the compressed size. Weights that a function closes over are part of its module and do not compress.
MAX_PACKED_BYTES = 4 * 2**20
# The preset's dictionary has 8 MiB.
_PRESET = 6
_UNPACKING_BYTES = 64 * 2**20


def pack_module(module: bytes) -> dict[str, Any]:
    """Returns the field `module` of a program file.

    Raises:
      UserError: the module is too large to be carried.
    """
    data = lzma.compress(module, preset=_PRESET) if len(module) <= MAX_MODULE_BYTES else b""
    if not data or len(data) > MAX_PACKED_BYTES:
        size, limit = (len(data), MAX_PACKED_BYTES) if data else (len(module), MAX_MODULE_BYTES)
        raise UserError(
            f"the lowered module has {size / 2**20:.0f} MiB, more than the {limit / 2**20:.0f} that a program file "
            "carries: pass weights as arguments (`jax.ShapeDtypeStruct` will do), not as constants"
        )
    return {
        "format": FORMAT,
        "bytes": len(module),
        "sha256": hashlib.sha256(module).hexdigest(),
        "xz": base64.b64encode(data).decode("ascii"),
    }


def unpack_module(field: Any) -> bytes:
    """Returns the module of a field.

    Raises:
      FormatError: the field is not one of `pack_module`; the message begins with the trouble.
    """
    if not isinstance(field, dict) or field.get("format") != FORMAT:
        raise FormatError(f"is no {FORMAT}")
    text, size = field.get("xz"), field.get("bytes")
    if not isinstance(text, str) or not isinstance(size, int) or isinstance(size, bool):
        raise FormatError("lacks `xz` or `bytes`")
    if not 0 < size <= MAX_MODULE_BYTES or len(text) > 2 * MAX_PACKED_BYTES:
        raise FormatError("is larger than a module may be")
    try:
        data = base64.b64decode(text, validate=True)
        unpacker = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_UNPACKING_BYTES)
        module = unpacker.decompress(data, max_length=size + 1)
    except (binascii.Error, lzma.LZMAError, ValueError, EOFError, MemoryError) as error:
        raise FormatError(f"cannot be unpacked ({error})") from error
    if len(module) != size or hashlib.sha256(module).hexdigest() != field.get("sha256"):
        raise FormatError("does not match its size or hash: the file was changed")
    return module
