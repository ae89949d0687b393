"""Finds the source that a program can be compiled from again: the lowered module in its file, or its function."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..env.capture.capture import UNNAMED
from ..env.capture.module_file import UNNAMED as NO_NAMES
from ..env.capture.reference import check_reference
from ..env.errors import UserError
from ..env.program.program import Program
from ..env.program.program_file import read_module
from ..env.program.target import find_target
from ..env.workloads import MODELS_PARENT, is_workload, workload


@dataclass(frozen=True)
class Source:
    """The source of a program, and the settings of its capture.

    Attributes:
      function: `PKG.MODULE:FUNCTION`.
      topology: the topology to compile for.
      folder: searched first for the function's module; None for the current folder.
      options: compiler options of the capture.
      versions: of jax and libtpu in the capture; empty if the program file does not give them.
      module: the lowered module, a portable artifact of StableHLO, which is compiled instead of the function; None if
        the program file has none.
    """

    function: str
    topology: str
    folder: Path | None
    options: Mapping[str, str]
    versions: Mapping[str, str]
    module: bytes | None = None


def check_named(program: Program) -> None:
    """Checks that options may name instructions of a program. Raises UserError if its module had no names."""
    if program.provenance.get(UNNAMED):
        raise UserError(
            f"program {program.name!r}, of {program.provenance.get('function')}: {NO_NAMES}; capture it again"
        )


def check_source(source: Source, python: Path | None) -> None:
    """Checks that the function of a source without a module can be found; runs none of its code.

    An interpreter of the user's may have it installed, and is not asked.

    Raises:
      UserError: there is no such module or function.
    """
    if source.module is not None or python is not None:
        return
    try:
        check_reference(source.function, source.folder)
    except UserError as error:
        raise UserError(f"{error}, or give --folder the folder that the program was captured in") from error


def program_path(name_or_path: str | Path) -> Path:
    """Returns the file of a program, given as the name of a workload or as a path."""
    name = str(name_or_path)
    return workload(name).path if is_workload(name) else Path(name_or_path)


def find_source(program: Program, path: Path | None = None, folder: Path | None = None) -> Source:
    """Returns the source of a program.

    Args:
      program: the program.
      path: the program's file; its lowered module is compiled unless `folder` is given.
      folder: searched first for the function's module; None for the current folder.

    Raises:
      UserError: the program file does not name function and topology.
      FormatError: the module in the file is damaged.
    """
    provenance = program.provenance
    versions: dict[str, str] = {key: str(provenance[key]) for key in ("jax", "libtpu") if key in provenance}
    module = read_module(path) if path is not None and folder is None else None
    if is_workload(program.name):
        entry = workload(program.name)
        if entry.sha256 == program.sha256:
            found = MODELS_PARENT if folder is None else folder
            return Source(entry.reference, find_target(entry.target)[1], found, entry.options, versions, module)
    function, topology = provenance.get("function"), provenance.get("topology")
    if not (isinstance(function, str) and ":" in function and isinstance(topology, str)):
        missing = "function" if not (isinstance(function, str) and ":" in function) else "topology"
        raise UserError(
            f"program {program.name!r}: the file lacks `provenance.{missing}`, so that nobody can compile it again; "
            "capture it with `mallocmuzero capture`"
        )
    options = provenance.get("compiler_options") or {}
    if not isinstance(options, dict):
        raise UserError(f"program {program.name!r}: `provenance.compiler_options` is no table; capture it again")
    return Source(function, topology, folder, {key: str(value) for key, value in options.items()}, versions, module)
