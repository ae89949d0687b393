"""Mapping files: one mapping, with the hash of the program that it maps. The format: docs/formats.md."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import FormatError
from .document import Document, read_document, write_document
from .mapping import COPY_FIELDS, RESIDENCY_FIELDS, Mapping
from .program import Program

MAPPING_FORMAT = "mallocmuzero-mapping"
MAPPING_VERSION = 1


def write_mapping(mapping: Mapping, program: Program, path: str | os.PathLike[str]) -> None:
    """Writes a mapping file for `program`. The bytes depend on the mapping alone.

    Raises:
      UserError: the file cannot be written.
    """
    document = {
        "format": MAPPING_FORMAT,
        "version": MAPPING_VERSION,
        "program": program.name,
        **mapping_fields(mapping),
    }
    write_document(document, Path(path))


def read_mapping(path: str | os.PathLike[str], program: Program) -> Mapping:
    """Reads a mapping file and validates its form. Its legality is left to `verify`.

    Raises:
      UserError: there is no such file, or it cannot be read.
      FormatError: it is not a whole mapping file of this version, or it maps another program.
    """
    path = Path(path)
    fields = read_document(path, MAPPING_FORMAT, (MAPPING_VERSION,))
    return parse_mapping(Document(path, fields, mend="write the mapping again"), program)


def mapping_fields(mapping: Mapping) -> dict[str, Any]:
    """Returns a mapping as plain JSON values: the fields of a mapping file that program files use too."""
    return {
        "program_sha256": mapping.program_sha256,
        "accesses_fast": np.flatnonzero(mapping.access_fast).tolist(),
        "residencies": {name: mapping.residencies[:, i].tolist() for i, name in enumerate(RESIDENCY_FIELDS)},
        "copies": {name: mapping.copies[:, i].tolist() for i, name in enumerate(COPY_FIELDS)},
        "origin": mapping.origin,
    }


def parse_mapping(document: Document, program: Program) -> Mapping:
    """Returns the mapping that the fields of `mapping_fields` describe.

    Raises:
      FormatError: a field is wrong, or the mapping belongs to another program.
    """
    refers_to = document.get("program_sha256", str)
    if refers_to != program.sha256:
        raise FormatError(
            f"{document.path}: field `{document.prefix}program_sha256` is {refers_to:.12}..., but program "
            f"{program.name!r} has {program.sha256:.12}...: this mapping belongs to another program; give the program "
            "it was made for"
        )
    fast = document.array("accesses_fast", document.get("accesses_fast", list), np.int64)
    if fast.size and (fast.min() < 0 or fast.max() >= program.num_accesses):
        raise document.error("accesses_fast", f"names an access outside 0..{program.num_accesses - 1}")
    access_fast = np.zeros(program.num_accesses, bool)
    access_fast[fast] = True
    tables = []
    for section, names in (("residencies", RESIDENCY_FIELDS), ("copies", COPY_FIELDS)):
        table = document.get(section, dict)
        for name in names:
            if not isinstance(table.get(name), list):
                raise document.error(f"{section}.{name}", "is missing or not a list")
        columns = [document.array(f"{section}.{name}", table[name], np.int64) for name in names]
        if len({len(column) for column in columns}) != 1:
            raise document.error(section, "has columns of different lengths")
        tables.append(np.stack(columns, axis=1))
    return Mapping(refers_to, access_fast, tables[0], tables[1], document.notes("origin"))
