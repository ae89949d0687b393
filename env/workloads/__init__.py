"""The benchmark: programs of real models, captured from the TPU compiler, and the splits that they belong to."""

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
# The worker imports `models` from here: model code runs in the capture environment, which lacks this package.
MODELS_PARENT = _FOLDER


@dataclass(frozen=True)
class Workload:
    """One workload, a line of the manifest.

    Attributes:
      name: name of the workload and of its program file.
      family: model family.
      split: one of `SPLITS`; all workloads of a family are in the same split.
      target: hardware generation that it is compiled for.
      module: module of the package `models`.
      function: function of the module that returns the model's function and arguments.
      description: one line for people.
      source: origin of the model's code: a package, or a publication.
      sha256: hash of the program's problem; empty until it is captured.
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
        """`PACKAGE.MODULE:FUNCTION`, for `capture` with `MODELS_PARENT` as its working folder."""
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
    """Returns the names of the captured workloads, in the order of the manifest."""
    return [name for name, entry in _manifest().items() if entry.path.exists()]


def all_names() -> list[str]:
    """Returns the names of all workloads of the manifest, captured or not, in its order."""
    return list(_manifest())


def workload(name: str) -> Workload:
    """Returns the workload `name`.

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
      UserError: it is neither a workload nor a file, or a workload that is not captured.
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
