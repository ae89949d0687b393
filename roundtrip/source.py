"""Where a program can be compiled again from: the lowered module that its file carries, or the function."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..env.errors import UserError
from ..env.program.program import Program
from ..env.program.program_file import read_module
from ..env.program.target import TOPOLOGIES
from ..env.workloads import MODELS_PARENT, all_names, workload


@dataclass(frozen=True)
class Source:
    """What a program is compiled from.

    Attributes:
      function: `PKG.MODULE:FUNCTION`.
      topology: what the compiler compiles for.
      folder: where the function's module is looked for first; None for the current folder.
      options: compiler options of the capture.
      versions: of jax and libtpu, as the program file says; empty where it does not.
      module: the lowered module, a portable artifact of StableHLO, which needs no function; None where the file has
        none.
    """

    function: str
    topology: str
    folder: Path | None
    options: Mapping[str, str]
    versions: Mapping[str, str]
    module: bytes | None = None


def program_path(name_or_path: str | Path) -> Path:
    """Returns the file of a program: of a committed workload by its name, or any by its path."""
    name = str(name_or_path)
    return workload(name).path if name in all_names() else Path(name_or_path)


def find_source(program: Program, path: Path | None = None, folder: Path | None = None) -> Source:
    """Returns what a program is compiled from.

    Args:
      program: the program.
      path: its file, whose module serves unless `folder` is given.
      folder: where the function's module is looked for first; None for the current folder.

    Raises:
      UserError: the program file does not say.
      FormatError: the module in the file was changed.
    """
    provenance = program.provenance
    versions: dict[str, str] = {key: str(provenance[key]) for key in ("jax", "libtpu") if key in provenance}
    module = read_module(path) if path is not None and folder is None else None
    if program.name in all_names():
        entry = workload(program.name)
        if entry.sha256 == program.sha256:
            found = MODELS_PARENT if folder is None else folder
            return Source(entry.reference, TOPOLOGIES[entry.target], found, {}, versions, module)
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
