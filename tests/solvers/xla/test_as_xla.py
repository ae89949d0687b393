"""Our copy of XLA's algorithm decides as the compiler did, where the capture keeps what its log tells."""

from pathlib import Path

import pytest
from compiler_cases import SMALL, unpacked

from mallocmuzero.env.capture.assemble import Assembly
from mallocmuzero.env.program.mapping import Mapping
from mallocmuzero.env.program.target import GENERATIONS
from mallocmuzero.solvers.xla.decoder import Decoder


def copies(mapping: Mapping) -> list[list[int]]:
    """Returns all copies but for the order of those that start together."""
    rows: list[list[int]] = sorted(mapping.copies.tolist())
    return rows


# Recordings of real compilations.
@pytest.mark.parametrize(
    "recording",
    [
        "callbacks/print-v5e",
        "conditionals/experts-v5e",
        "conditionals/loss-scaling-v5e",
        "conditionals/scanned-v5e",
        "kernels/products-tpu7x",
        "kernels/rms-v5e",
        "loop-end/remat-tpu7x",
        "loop-end/sums-v6e",
        "other-cores/bag-v6e",
        "scanned/decode-v5e",
        "scanned/mixer-train-v5e",
        "sharded/fsdp-train-v5e-2x2",
        "sharded/ring-v5e-2x2",
    ],
)
def test_all_of_xlas_mapping_comes_out(recording: str, tmp_path: Path) -> None:
    target = recording.removesuffix("-2x2").rpartition("-")[2]
    folder = unpacked(SMALL.parent / f"{recording}.tar.xz", tmp_path)
    program = Assembly(folder, GENERATIONS[target], "recorded", "recorded").program()
    assert program.production is not None
    mapping = Decoder(program).decode()
    assert (mapping.access_fast == program.production.access_fast).all()
    assert copies(mapping) == copies(program.production)
