"""Mappings by the names that the command line gives them: `production`, `all-hbm`, or a file."""

from pathlib import Path

from ...env.errors import UserError
from ...env.program.mapping import Mapping
from ...env.program.mapping_file import read_mapping
from ...env.program.program import Program, all_hbm
from ...env.suggestion import nearest, unknown

PRODUCTION = "production"
ALL_HBM = "all-hbm"


def read_any_mapping(name: str, program: Program) -> Mapping:
    """Returns `production`, `all-hbm`, or the mapping of a file.

    Raises:
      UserError: the program has no production mapping, or the file cannot be used.
    """
    if name == ALL_HBM:
        return all_hbm(program)
    if name != PRODUCTION:
        if nearest(name, (PRODUCTION, ALL_HBM)) and not Path(name).exists():
            raise UserError(unknown("mapping", name, (PRODUCTION, ALL_HBM)))
        return read_mapping(name, program)
    if program.production is None:
        raise UserError(f"program {program.name!r} has no production mapping; capture it again, or give a mapping file")
    return program.production
