"""The lowered module in a program file: kept, read back, and refused where it was changed or is too large."""

import base64
import gzip
import json
import lzma
import os
from pathlib import Path
from typing import Any

import pytest

from mallocmuzero.env import workloads
from mallocmuzero.env.errors import FormatError, UserError
from mallocmuzero.env.program import packed_module
from mallocmuzero.env.program.packed_module import MAX_PACKED_BYTES, pack_module, unpack_module
from mallocmuzero.env.program.program_file import read_module, read_program, write_program

MODULE = b"ML\xefR" + b"module @jit_f " * 100


def test_a_file_keeps_its_module(tmp_path: Path) -> None:
    tiny = workloads.load("tiny")
    with_module, without = tmp_path / "with.json.gz", tmp_path / "without.json.gz"
    write_program(tiny, with_module, MODULE)
    write_program(tiny, without)
    assert read_module(with_module) == MODULE
    assert read_module(without) is None
    assert read_program(with_module).sha256 == read_program(without).sha256 == tiny.sha256
    again = tmp_path / "again.json.gz"
    write_program(read_program(with_module), again, read_module(with_module))
    assert again.read_bytes() == with_module.read_bytes()


def test_committed_modules() -> None:
    entry = workloads.workload("tiny")
    module = read_module(entry.path)
    assert module is not None
    assert b"StableHLO" in module
    assert b".py" not in module  # whose files they were is nobody's business


def changed(**fields: Any) -> dict[str, Any]:
    return {**pack_module(MODULE), **fields}


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ([], "is no stablehlo"),
        (changed(format="hlo"), "is no stablehlo"),
        (changed(bytes=True), "lacks"),
        (changed(bytes=2**40), "larger"),
        (changed(bytes=0), "larger"),
        (changed(bytes=len(MODULE) - 1), "does not match"),
        (changed(bytes=len(MODULE) + 1), "does not match"),
        (changed(sha256="0" * 64), "does not match"),
        (changed(xz="%%%%"), "cannot be unpacked"),
        (changed(xz=base64.b64encode(b"this is no xz file").decode()), "cannot be unpacked"),
        (changed(xz=base64.b64encode(lzma.compress(bytes(2**24))).decode()), "does not match"),  # a bomb
        (changed(xz="A" * (2 * MAX_PACKED_BYTES + 4)), "larger"),
    ],
)
def test_what_is_no_module_is_refused(tmp_path: Path, field: Any, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        unpack_module(field)
    tiny = workloads.load("tiny")
    path = tmp_path / "p.json.gz"
    write_program(tiny, path)
    document = json.loads(gzip.decompress(path.read_bytes()))
    path.write_bytes(gzip.compress(json.dumps({**document, "module": field}).encode()))
    with pytest.raises(FormatError, match=f"p.json.gz: field `module` .*{message}"):
        read_module(path)
    assert read_program(path).sha256 == tiny.sha256  # which does not look at it


def test_a_module_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_module, "MAX_PACKED_BYTES", 1000)
    with pytest.raises(UserError, match="pass weights as arguments"):
        pack_module(os.urandom(2000))
    monkeypatch.setattr(packed_module, "MAX_MODULE_BYTES", 1000)
    with pytest.raises(UserError, match="pass weights as arguments"):
        pack_module(bytes(2000))
