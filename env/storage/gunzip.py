"""Reads gzipped files of unknown origin: bounded in size, with errors that say how to mend the file."""

import gzip
import zlib
from pathlib import Path

from ..errors import FormatError, UserError


def gunzip(path: Path, most_bytes: int, kind: str) -> bytes:
    """Returns the unpacked contents of a gzipped file.

    Args:
      path: the file.
      most_bytes: limit of the unpacked size.
      kind: kind of the file, for messages.

    Raises:
      UserError: there is no such file, or it cannot be read.
      FormatError: it is truncated, no gzip file, or unpacks to more than the limit.
    """
    try:
        with gzip.open(path, "rb") as file:
            data = file.read(most_bytes + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        if _is_plain_json(path):
            mend = f"`gzip {path}` makes {path}.gz of it"
            if path.suffix == ".gz":
                mend = f"`mv {path} {path.with_suffix('')} && gzip {path.with_suffix('')}` compresses it"
            raise FormatError(f"{path}: is JSON that is not compressed; {mend}") from error
        # The library's own words for it show the first bytes of the file.
        fault = "not a gzip file" if isinstance(error, gzip.BadGzipFile) else f"truncated or damaged ({error})"
        raise FormatError(f"{path}: is no {kind} file: {fault}; check the path, or write it again") from error
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from error
    if not data:
        raise FormatError(f"{path}: is empty; check the path, or write it again")
    if len(data) > most_bytes:
        raise FormatError(f"{path}: unpacks to more than {most_bytes} bytes; this is no {kind} file")
    return data


def _is_plain_json(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(64).lstrip()[:1] == b"{"
