"""Reads and writes the CSV format of MiniMalloc: `id,lower,upper,size`, an item per line; solutions add `offset`."""

import csv
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import FormatError, UserError
from ..storage.atomic import write_atomically

COLUMNS = ("id", "lower", "upper", "size")
_MOST = 2**62


@dataclass(frozen=True, eq=False)
class Items:
    """The items of a file. Shapes: `n` items.

    Attributes:
      ids: `[n]` names of the items.
      lower, upper: `[n]` half-open times.
      size: `[n]` bytes.
    """

    ids: tuple[str, ...]
    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    size: NDArray[np.int64]


def read_csv(path: str | Path) -> Items:
    """Reads items. Columns may stand in any order; others are ignored.

    Raises:
      UserError: the file cannot be read.
      FormatError: a line is wrong; the message names the line and the field.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from error
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: is not text in UTF-8 (byte {error.start})") from error
    rows = csv.reader(io.StringIO(text))
    header = [field.strip() for field in next(rows, [])]
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        raise FormatError(
            f"{path}: line 1: there is no column {missing[0]!r}; the header must hold {','.join(COLUMNS)}"
        )
    for name in COLUMNS:
        if header.count(name) > 1:
            raise FormatError(f"{path}: line 1: column {name!r} stands there twice")
    place = {name: header.index(name) for name in COLUMNS}
    ids: dict[str, int] = {}
    table: list[tuple[int, int, int]] = []
    try:
        for row in rows:
            line = rows.line_num
            if not row:
                continue
            if len(row) != len(header):
                raise FormatError(f"{path}: line {line}: has {len(row)} fields, the header has {len(header)}")
            name = row[place["id"]].strip()
            if name in ids:
                raise FormatError(f"{path}: line {line}: field 'id': {name!r} stands in line {ids[name]} already")
            ids[name] = line
            lower, upper, size = (_integer(path, line, field, row[place[field]]) for field in COLUMNS[1:])
            if upper <= lower:
                raise FormatError(f"{path}: line {line}: field 'upper': {upper} is not after lower, {lower}")
            if size < 1:
                raise FormatError(f"{path}: line {line}: field 'size': {size} is not at least 1")
            table.append((lower, upper, size))
    except csv.Error as error:
        raise FormatError(f"{path}: line {rows.line_num}: is not CSV ({error})") from error
    columns = np.array(table, np.int64).reshape(-1, 3)
    if columns[:, 2].astype(float).sum() > _MOST:
        raise FormatError(f"{path}: field 'size': the sizes sum to more than {_MOST} bytes")
    return Items(tuple(ids), columns[:, 0].copy(), columns[:, 1].copy(), columns[:, 2].copy())


def write_csv(items: Items, offsets: NDArray[np.int64], path: str | Path) -> None:
    """Writes items with their offsets.

    Raises:
      UserError: the file cannot be written.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow((*COLUMNS, "offset"))
    writer.writerows(
        zip(items.ids, *(x.tolist() for x in (items.lower, items.upper, items.size, offsets)), strict=True)
    )
    write_atomically(Path(path), out.getvalue().encode())


def _integer(path: str | Path, line: int, field: str, text: str) -> int:
    try:
        value = int(text.strip())
    except ValueError:
        raise FormatError(f"{path}: line {line}: field {field!r}: {text!r} is not a whole number") from None
    if not -_MOST < value < _MOST:
        raise FormatError(f"{path}: line {line}: field {field!r}: {value} is too large")
    return value
