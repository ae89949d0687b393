"""`load`: reads a program."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...env.program.mapping import Mapping
    from ...env.program.program import Program


def load(program: "Program | str | Path") -> "Program":
    """Returns a program: a workload of the benchmark by its name, or a program file by its path.

    Args:
      program: the name or the path; a program is returned unchanged.

    Raises:
      UserError: it is neither; the message names the nearest workloads.
      FormatError: the file is not a program file.
    """
    from ...env import workloads
    from ...env.program.program import Program

    return program if isinstance(program, Program) else workloads.load(program)


def load_mapping(mapping: "Mapping | str | Path", program: "Program") -> "Mapping":
    """Returns a mapping of a program: `production` for XLA's own, `all-hbm`, or a mapping file by its path.

    Raises:
      UserError: the program has no production mapping, or the file cannot be used.
    """
    from ...env.program.mapping import Mapping
    from ..terminal.mappings import read_any_mapping

    return mapping if isinstance(mapping, Mapping) else read_any_mapping(str(mapping), program)
