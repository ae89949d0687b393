"""The manifest of the corpus: what was made from which seed, and which seeds gave nothing and why.

`manifest.json` is `{"version": 1, "programs": [...], "left_out": [...]}`, both lists in the order of the seeds. The
draws of different seeds are independent, so the first programs are as mixed as all of them.

| list | key | contents |
|---|---|---|
| `programs` | `name`, `seed` | the program, and the seed that its architecture is drawn from |
| | `kind`, `target`, `description` | of the architecture |
| | `part` | `train` or `validation` |
| | `cycles` | the program has a cycle table |
| | `accesses`, `pressure` | size of the program; its peak live bytes over the bytes of fast memory |
| | `sha256` | hash of the problem |
| `left_out` | `seed`, `description` | of the architecture |
| | `reason` | one line |
| | `final` | the program is whole but not wanted, so that trying again is of no use |
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...storage.atomic import write_atomically
from .. import CORPUS_MANIFEST

VERSION = 1
TRAIN, VALIDATION = "train", "validation"


def part_of(seed: int) -> str:
    """Returns the part that the program of a seed belongs to: one in ten is for validation."""
    return VALIDATION if seed % 10 == 9 else TRAIN


@dataclass
class Manifest:
    """The manifest, by seed.

    Attributes:
      path: the file.
      programs: entries of `programs`.
      left_out: entries of `left_out`.
    """

    path: Path
    programs: dict[int, dict[str, Any]] = field(default_factory=dict)
    left_out: dict[int, dict[str, Any]] = field(default_factory=dict)

    def add(self, entry: dict[str, Any]) -> None:
        """Adds an entry of `programs`, and writes the file."""
        self.programs[entry["seed"]] = entry
        self.left_out.pop(entry["seed"], None)
        self.write()

    def leave_out(self, entry: dict[str, Any]) -> None:
        """Adds an entry of `left_out`, and writes the file."""
        self.left_out[entry["seed"]] = entry
        self.write()

    def write(self) -> None:
        """Writes the file, one line for each entry, whole or not at all."""
        lists = [
            f'  "{name}": [\n' + ",\n".join(f"    {json.dumps(entries[seed])}" for seed in sorted(entries)) + "\n  ]"
            for name, entries in (("programs", self.programs), ("left_out", self.left_out))
        ]
        write_atomically(self.path, ("{\n" + f'  "version": {VERSION},\n' + ",\n".join(lists) + "\n}\n").encode())


def read_manifest(path: Path = CORPUS_MANIFEST) -> Manifest:
    """Returns the manifest, empty if there is none."""
    if not path.exists():
        return Manifest(path)
    document = json.loads(path.read_text(encoding="utf-8"))
    lists = ({entry["seed"]: entry for entry in document[name]} for name in ("programs", "left_out"))
    return Manifest(path, *lists)
