"""Compilations of sharded functions whose collectives run beside other instructions, on 2 x 2 chips of v5e.

- `ring-v5e-2x2`: a matrix product whose operand goes around a ring, `collective-permute-start` and its end.
- `fsdp-train-v5e-2x2`: a training step of two layers whose weights are gathered before use: collectives hidden in
  fusions, and pairs.
- `crossing-v5e-2x2`: a scanned stack of layers, then a product with a table that is gathered while the layers run.
"""

import tarfile
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "env" / "capture" / "data" / "sharded"
COMPILATIONS = ("crossing-v5e-2x2", "fsdp-train-v5e-2x2", "ring-v5e-2x2")


def unpack(name: str, folder: Path) -> Path:
    """Unpacks one of `COMPILATIONS` into a folder and returns it."""
    with tarfile.open(FOLDER / f"{name}.tar.xz") as packed:
        packed.extractall(folder, filter="data")
    return folder
