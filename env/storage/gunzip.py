"""Reading gzipped files from anywhere: within bounds, and with errors that say what to do."""

import gzip
import zlib
from pathlib import Path

from ..errors import FormatError, UserError


def gunzip(path: Path, most_bytes: int, kind: str) -> bytes:
    """Returns what a gzipped file holds.

    Args:
      path: the file.
      most_bytes: more than a file of this kind can hold, unpacked.
      kind: what the file should be, for messages.

    Raises:
      UserError: there is no such file, or it cannot be read.
      FormatError: it is truncated or no gzip file, or unpacks to more.
    """
    try:
        with gzip.open(path, "rb") as file:
            data = file.read(most_bytes + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FormatError(
            f"{path}: is no {kind} file: truncated or not a gzip file ({error}); check the path, or write it again"
        ) from error
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from error
    if len(data) > most_bytes:
        raise FormatError(f"{path}: unpacks to more than {most_bytes} bytes; this is no {kind} file")
    return data
