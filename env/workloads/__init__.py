"""The benchmark: programs of real models, captured from the TPU compiler, and the splits that they belong to."""

import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from ..errors import UserError
from ..program.program import Program
from ..program.program_file import read_program
from ..suggestion import unknown

SPLITS = ("train", "validation", "heldout", "control")
# Programs of generated models, to learn from: not a split of the benchmark.
CORPUS = "corpus"
_FOLDER = Path(__file__).parent
MANIFEST = _FOLDER / "manifest.json"
PROGRAMS_FOLDER = _FOLDER / "programs"
CORPUS_MANIFEST = _FOLDER / "corpus" / "manifest.json"
CORPUS_FOLDER = _FOLDER / "corpus" / "programs"
# The worker imports `models` from here: model code runs in the capture environment, which lacks this package.
MODELS_PARENT = _FOLDER
# The command that lists the workloads.
LISTING = "mallocmuzero workloads"
_NO_CORPUS = (
    "the corpus is not here, because installed packages leave it out; work in a clone of the repository, or give the "
    "path of a program file"
)


@dataclass(frozen=True)
class Workload:
    """One workload, a line of the manifest.

    Attributes:
      name: name of the workload and of its program file.
      family: model family.
      split: one of `SPLITS`, or `CORPUS`; all workloads of a family are in the same split.
      target: what it is compiled for: a generation, or a topology of one, see `find_target`.
      module: module of the package `models`.
      function: function of the module that returns the model's function and arguments.
      description: one line for people.
      source: origin of the model's code: a package, or a publication.
      sha256: hash of the program's problem; empty until it is captured.
      part: `train` or `validation` in the corpus; empty elsewhere.
      options: compiler options of every compilation.
      left_out: why it cannot be captured; empty where no reason is known.
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
    part: str = ""
    options: dict[str, str] = field(default_factory=dict, hash=False)
    left_out: str = ""

    @property
    def reference(self) -> str:
        """`PACKAGE.MODULE:FUNCTION`, for `capture` with `MODELS_PARENT` as its working folder."""
        return f"models.{self.module}:{self.function}"

    @property
    def path(self) -> Path:
        """The committed program file."""
        return (CORPUS_FOLDER if self.split == CORPUS else PROGRAMS_FOLDER) / f"{self.name}.json.gz"


@cache
def _manifest() -> dict[str, Workload]:
    document = json.loads(MANIFEST.read_text(encoding="utf-8"))
    return {entry["name"]: Workload(**entry) for entry in document["workloads"]}


@cache
def _corpus() -> dict[str, Workload]:
    """Returns the workloads of the corpus by name; none in a checkout that has no corpus yet."""
    if not CORPUS_MANIFEST.exists():
        return {}
    document = json.loads(CORPUS_MANIFEST.read_text(encoding="utf-8"))
    return {entry["name"]: corpus_workload(entry) for entry in document["programs"]}


def corpus_workload(entry: dict[str, Any]) -> Workload:
    """Returns the workload of an entry of the corpus's manifest."""
    return Workload(
        name=entry["name"],
        family=f"generated-{entry['kind']}",
        split=CORPUS,
        target=entry["target"],
        module="generated",
        function=f"seed_{entry['seed']}",
        description=entry["description"],
        source="drawn from a seed",
        sha256=entry["sha256"],
        part=entry["part"],
    )


def names() -> list[str]:
    """Returns the names of the benchmark's captured workloads, in the order of the manifest."""
    return [name for name, entry in _manifest().items() if entry.path.exists()]


def corpus_names(part: str | None = None) -> list[str]:
    """Returns the names of the corpus's programs, in the order of its manifest, which is random.

    Args:
      part: only those of this part, `train` or `validation`.

    Raises:
      UserError: there is no corpus here.
    """
    found = [name for name, entry in _corpus().items() if part in (None, entry.part) and entry.path.exists()]
    if not found:
        raise UserError(f"{CORPUS_FOLDER}: {_NO_CORPUS}")
    return found


def names_of(split: str | None) -> list[str]:
    """Returns the names of the captured workloads of a split, or of the whole benchmark.

    Raises:
      UserError: there is no such split.
    """
    if split == CORPUS:
        return corpus_names()
    if split is not None and split not in SPLITS:
        raise UserError(unknown("split", split, (*SPLITS, CORPUS)))
    return [name for name in names() if split in (None, _manifest()[name].split)]


def all_names() -> list[str]:
    """Returns the names of all workloads of the benchmark, captured or not, in the order of the manifest."""
    return list(_manifest())


def is_workload(name: str) -> bool:
    """Returns whether a workload of the benchmark or of the corpus has this name."""
    return name in _manifest() or name in _corpus()


def workload(name: str) -> Workload:
    """Returns the workload `name`, of the benchmark or of the corpus.

    Raises:
      UserError: there is no such workload.
    """
    if not is_workload(name):
        raise UserError(unknown("workload", name, all_names(), LISTING))
    return _manifest().get(name) or _corpus()[name]


def split(name: str) -> str:
    """Returns the split of a workload: one of `SPLITS`, or `CORPUS`.

    Raises:
      UserError: there is no such workload.
    """
    return workload(name).split


def load(name_or_path: str | Path) -> Program:
    """Reads a program: a committed workload or program of the corpus by its name, or any program file by its path.

    Raises:
      UserError: it is neither a workload nor a file, or a workload that is not captured.
      FormatError: the file is not a program file.
    """
    if is_workload(str(name_or_path)):
        entry = workload(str(name_or_path))
        path = entry.path
        if not path.exists() and entry.split == CORPUS:
            raise UserError(f"{path}: {_NO_CORPUS}")
        if not path.exists():
            raise UserError(
                f"{path}: workload {str(name_or_path)!r} is not captured yet; "
                f"run `python -m mallocmuzero.env.workloads.regenerate {name_or_path}`"
            )
        return read_program(path)
    if Path(name_or_path).exists():
        return read_program(name_or_path)
    name = str(name_or_path)
    if Path(name).name != name or name.endswith((".gz", ".json")):
        raise UserError(f"{name}: there is no such program file; check the path")
    whole, mark, _ = name.partition("@")
    if mark and (is_workload(whole) or Path(whole).exists()):
        raise UserError(f"{name}: only `train` takes a share of the fast memory (NAME@SHARE); give {whole}")
    raise UserError(unknown("workload or program file", name, names(), LISTING))
