"""JSON documents on disk: reads and writes them, and checks their fields, for program and mapping files.

A file is one JSON object, compressed with gzip. Its fields are checked one by one as they are read, and every error
names the file and the field, and says how to mend it. The formats themselves: docs/formats.md.
"""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import FormatError
from ..storage.atomic import write_atomically
from ..storage.gunzip import gunzip

# Far above any real file, and small enough that a hostile one cannot exhaust memory.
MAX_FILE_BYTES = 256 * 2**20


class Document:
    """A JSON object of a file, whose fields are checked as they are read.

    Attributes:
      path: the file, for messages.
      mend: advice that ends every message.
      prefix: path of this object inside the file, e.g. `production.`; empty for the whole file.
      fields: the object itself.
    """

    def __init__(self, path: Path, fields: Any, *, mend: str, prefix: str = "") -> None:
        self.path, self.mend, self.prefix = path, mend, prefix
        if not isinstance(fields, dict):
            raise self.error("document", "is not a JSON object")
        self.fields: dict[str, Any] = fields

    def error(self, name: str, trouble: str) -> FormatError:
        """Returns the error to raise for a field with some trouble."""
        return FormatError(f"{self.path}: field `{self.prefix}{name}` {trouble}; {self.mend}")

    def get(self, name: str, kind: type) -> Any:
        """Returns a field of a type.

        Raises:
          FormatError: the field is missing or of another type.
        """
        if name not in self.fields:
            raise self.error(name, "is missing")
        value = self.fields[name]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self.error(name, f"is not a {kind.__name__}")
        return value

    def notes(self, name: str) -> dict[str, Any]:
        """Returns an object that is kept and written again as it is: it may hold anything but numbers JSON lacks.

        Raises:
          FormatError: the field is missing, no object, or holds NaN or an infinite number.
        """
        value: dict[str, Any] = self.get(name, dict)
        try:
            json.dumps(value, allow_nan=False)
        except ValueError as error:
            raise self.error(name, "holds a number that is not finite") from error
        return value

    def inner(self, fields: Any, prefix: str) -> "Document":
        """Returns an object inside this one; `prefix` is its path relative to this one.

        Raises:
          FormatError: `fields` is no object.
        """
        return Document(self.path, fields, mend=self.mend, prefix=self.prefix + prefix)

    def column(self, table: dict[str, Any], section: str, key: str, dtype: type) -> Any:
        """Returns a column of a table: a tuple of strings where `dtype` is `str`, else an array.

        Args:
          table: the table, by column.
          section: name of the table.
          key: name of the column.
          dtype: type of the entries: `str` or a NumPy type.

        Raises:
          FormatError: the column is missing, or an entry is of another type.
        """
        name = f"{section}.{key}"
        values = table.get(key)
        if not isinstance(values, list):
            raise self.error(name, "is missing or not a list")
        if dtype is str:
            if not set(map(type, values)) <= {str}:
                raise self.error(name, "holds something that is not a string")
            return tuple(values)
        return self.array(name, values, dtype)

    def array(self, name: str, values: list[Any], dtype: type) -> NDArray[Any]:
        """Returns a list as an array.

        Raises:
          FormatError: an entry is of another type, out of the type's range or not finite.
        """
        kinds = {bool} if dtype is np.bool_ else {int, float} if issubclass(dtype, np.floating) else {int}
        if not set(map(type, values)) <= kinds:
            index = next(number for number, value in enumerate(values) if type(value) not in kinds)
            raise self.error(f"{name}[{index}]", f"is {values[index]!r:.40}, which is not a {np.dtype(dtype).name}")
        if issubclass(dtype, np.integer):
            limits = np.iinfo(dtype)
            if values and not (min(values) >= limits.min and max(values) <= limits.max):
                raise self.error(name, f"holds a number outside {limits.min}..{limits.max}")
        try:
            array: NDArray[Any] = np.array(values, dtype)
        except OverflowError as error:  # a whole number beyond all floating-point ones
            raise self.error(name, "holds a number that is too large") from error
        if not np.all(np.isfinite(array)):
            raise self.error(name, "holds a number that is not finite")
        return array


def read_document(path: Path, expected_format: str, versions: tuple[int, ...]) -> dict[str, Any]:
    """Reads a file and checks its fields `format` and `version`.

    Raises:
      UserError: there is no such file, or it cannot be read.
      FormatError: it is truncated, no gzipped JSON, of another format or of another version.
    """
    data = gunzip(path, MAX_FILE_BYTES, expected_format)
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:  # also of a number with more digits than Python reads
        raise FormatError(f"{path}: is not JSON ({error}); write it again") from error
    if not isinstance(document, dict) or document.get("format") != expected_format:
        found = document.get("format") if isinstance(document, dict) else type(document).__name__
        raise FormatError(f"{path}: field `format` is {found!r:.60}, not {expected_format!r}; give a file of that kind")
    version = document.get("version")
    if version not in versions or isinstance(version, bool):
        raise FormatError(
            f"{path}: field `version` is {version!r:.20}, and this release reads {' and '.join(map(str, versions))}; "
            "write the file again with this release"
        )
    return document


def write_document(document: dict[str, Any], path: Path) -> None:
    """Writes a file whole or not at all. Its bytes depend on the document alone.

    Raises:
      UserError: the file cannot be written.
    """
    data = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    write_atomically(path, gzip.compress(data, compresslevel=9, mtime=0))
