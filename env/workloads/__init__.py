"""The benchmark programs: real models, captured from the TPU compiler, and the splits they belong to."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ..errors import UserError
from ..program.program import Program
from ..program.program_file import read_program

SPLITS = ("train", "validation", "heldout", "control")
_FOLDER = Path(__file__).parent
MANIFEST = _FOLDER / "manifest.json"
PROGRAMS_FOLDER = _FOLDER / "programs"
# Model code runs in the capture environment, which knows nothing of this package: the worker imports `models` here.
MODELS_PARENT = _FOLDER


@dataclass(frozen=True)
class Workload:
    """One line of the manifest.

    Attributes:
      name: name of the workload and of its program file.
      family: model family.
      split: one of `SPLITS`; a family never sits in two.
      target: hardware generation it is compiled for.
      module: module of the package `models` that makes it.
      function: function of the module.
      description: for people.
      source: where the model's code comes from: a package, or a publication.
      sha256: hash of the program's problem; empty as long as it is not captured.
    """

    name: str
    family: str
    split: str
    target: str
    module: str
    function: str
    description: str
    source: str
    sha256: str = ""

    @property
    def reference(self) -> str:
        """`PACKAGE.MODULE:FUNCTION`, as `capture` takes it with `MODELS_PARENT` for its working folder."""
        return f"models.{self.module}:{self.function}"

    @property
    def path(self) -> Path:
        """The committed program file."""
        return PROGRAMS_FOLDER / f"{self.name}.json.gz"


@cache
def _manifest() -> dict[str, Workload]:
    document = json.loads(MANIFEST.read_text(encoding="utf-8"))
    return {entry["name"]: Workload(**entry) for entry in document["workloads"]}


def names() -> list[str]:
    """Returns the names of the workloads whose programs are here, in the order of the manifest."""
    return [name for name, entry in _manifest().items() if entry.path.exists()]


def all_names() -> list[str]:
    """Returns the names of all workloads of the manifest, captured or not, in its order."""
    return list(_manifest())


def workload(name: str) -> Workload:
    """Returns the manifest's line for `name`.

    Raises:
      UserError: there is no such workload.
    """
    if name not in _manifest():
        raise UserError(f"no workload is called {name!r}; the names are {', '.join(all_names())}")
    return _manifest()[name]


def split(name: str) -> str:
    """Returns the split of a workload: one of `SPLITS`.

    Raises:
      UserError: there is no such workload.
    """
    return workload(name).split


def load(name_or_path: str | Path) -> Program:
    """Reads a program: a committed workload by its name, or any program file by its path.

    Raises:
      UserError: it is neither a workload nor a file, or a workload whose program is not here.
      FormatError: the file is not a program file.
    """
    if str(name_or_path) in _manifest():
        path = _manifest()[str(name_or_path)].path
        if not path.exists():
            raise UserError(
                f"{path}: workload {str(name_or_path)!r} is not captured yet; "
                f"run `python -m mallocmuzero.env.workloads.regenerate {name_or_path}`"
            )
        return read_program(path)
    if Path(name_or_path).exists():
        return read_program(name_or_path)
    raise UserError(
        f"{str(name_or_path)!r} is neither a workload nor a program file; the workloads are {', '.join(names())}"
    )
