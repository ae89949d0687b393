"""Captured programs whose layers or steps run under `jax.lax.scan`, with XLA's mappings; and two raw compilations."""

import tarfile
from pathlib import Path

from mallocmuzero.env.program.program import Program
from mallocmuzero.env.program.program_file import read_program

FOLDER = Path(__file__).parents[1] / "env" / "capture" / "data" / "scanned"
SCANNED = tuple(sorted(path.name.removesuffix(".json.gz") for path in FOLDER.glob("*.json.gz")))
COMPILATIONS = tuple(sorted(path.name.removesuffix(".tar.xz") for path in FOLDER.glob("*.tar.xz")))


def load_scanned(name: str) -> Program:
    """Returns one of `SCANNED`."""
    return read_program(FOLDER / f"{name}.json.gz")


def unpack(name: str, folder: Path) -> Path:
    """Unpacks one of `COMPILATIONS` into a folder and returns it."""
    with tarfile.open(FOLDER / f"{name}.tar.xz") as packed:
        packed.extractall(folder, filter="data")
    return folder
