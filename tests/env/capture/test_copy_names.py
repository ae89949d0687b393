"""Copies that older logs do not name are found in the compiled module."""

import re
from pathlib import Path

import numpy as np
import pytest
from compiler_cases import SMALL, assembled, unpacked

DATA = SMALL.parent
_NAMES = re.compile(r", existing copy_start: [\w.\-]+, existing copy_done: [\w.\-]+")


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("scanned/decode-v5e", "v5e"),
        ("scanned/mixer-train-v5e", "v5e"),
        ("sharded/ring-v5e-2x2", "v5e"),
        ("conditionals/experts-v5e", "v5e"),
        ("kernels/products-tpu7x", "tpu7x"),
        ("loop-end/sums-v6e", "v6e"),
        ("scatters/experts-train-v5e", "v5e"),
        ("offloaded/unrolled-v5e", "v5e"),
    ],
)
def test_without_names_the_log_tells_the_same_mapping(name: str, target: str, tmp_path: Path):
    folder = unpacked(DATA / f"{name}.tar.xz", tmp_path / "compilation")
    known = assembled(folder, target)
    text = (folder / "log.txt").read_text(encoding="utf-8")
    (folder / "log.txt").write_text(
        _NAMES.sub("", text).replace("existing sync_mem_op", "sync_mem_op"), encoding="utf-8"
    )
    found = assembled(folder, target)
    assert known.production is not None
    assert found.production is not None
    for part in ("access_fast", "residencies", "copies"):
        assert np.array_equal(getattr(found.production, part), getattr(known.production, part)), part
    assert found.compiler["inexpressible"] == known.compiler["inexpressible"]
    assert found.compiler["estimates_off"] == known.compiler["estimates_off"]
