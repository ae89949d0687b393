"""Program and mapping files: what is written is read back; what is wrong is refused, with file and field named."""

import errno
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from mallocmuzero.env import durable, files
from mallocmuzero.env.errors import FormatError, UserError
from mallocmuzero.env.files import read_mapping, read_program, write_mapping, write_program
from mallocmuzero.env.mapping import all_hbm
from mallocmuzero.env.program import PROBLEM_FIELDS, Program
from mallocmuzero.env.workloads import load, names
from programs import make_program, programs


def small() -> Program:
    return make_program(
        [("a", 1.0, ["x"], ["y"]), ("b", 1.0, ["y"], ["z"]), ("c", 1.0, ["z"], ["z"])],
        {"x": {"size": 16, "input": True}, "y": 64, "z": {"size": 16, "output": True}},
        loops=[(1, 1, 3)],
    )


@settings(max_examples=40, deadline=None)
@given(programs())
def test_programs_and_mappings_are_read_back(tmp_path_factory: pytest.TempPathFactory, program: Program) -> None:
    folder = tmp_path_factory.mktemp("files")
    write_program(program, folder / "p.json.gz")
    again = read_program(folder / "p.json.gz")
    assert again.sha256 == program.sha256
    for fields in PROBLEM_FIELDS.values():
        for attribute in fields.values():
            assert np.array_equal(getattr(again, attribute), getattr(program, attribute)), attribute
    mapping = all_hbm(program)
    write_mapping(mapping, program, folder / "m.json.gz")
    assert np.array_equal(read_mapping(folder / "m.json.gz", again).access_fast, mapping.access_fast)


@pytest.mark.parametrize("name", names())
def test_committed_programs_are_written_as_they_were_read(name: str, tmp_path: Path) -> None:
    program = load(name)
    write_program(program, tmp_path / "again.json.gz")
    again = read_program(tmp_path / "again.json.gz")
    assert again.sha256 == program.sha256
    assert program.production is not None
    assert again.production is not None
    assert np.array_equal(again.production.residencies, program.production.residencies)
    write_program(again, tmp_path / "twice.json.gz")
    assert (tmp_path / "twice.json.gz").read_bytes() == (tmp_path / "again.json.gz").read_bytes()


def change(path: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    document = json.loads(gzip.decompress(path.read_bytes()))
    edit(document)
    path.write_bytes(gzip.compress(json.dumps(document).encode()))


def setting(*place: str | int, value: Any) -> Callable[[dict[str, Any]], None]:
    def edit(document: Any) -> None:
        for part in place[:-1]:
            document = document[part]
        document[place[-1]] = value

    return edit


def removing(*place: str) -> Callable[[dict[str, Any]], None]:
    def edit(document: Any) -> None:
        for part in place[:-1]:
            document = document[part]
        del document[place[-1]]

    return edit


@pytest.mark.parametrize(
    ("edit", "field"),
    [
        (setting("format", value="something"), "`format`"),
        (setting("version", value=99), "`version` is 99"),
        (removing("name"), "`name` is missing"),
        (setting("family", value=7), "`family` is not a str"),
        (removing("instructions", "opcode"), "`instructions.opcode` is missing"),
        (setting("instructions", "name", 0, value=1), "`instructions.name` holds something that is not a string"),
        (setting("instructions", "compute_s", 1, value="fast"), "`instructions.compute_s[1]` is 'fast'"),
        (setting("instructions", "compute_s", 1, value=-1.0), "`instructions.compute_s[1]` is -1.0, outside"),
        (setting("instructions", "reserved", 0, value=10**12), "`instructions.reserved[0]`"),
        (setting("instructions", "schedule_index", value=[2, 1, 0]), "`instructions.schedule_index` does not increase"),
        (setting("instructions", "name", value=["a"]), "`instructions.opcode` has 3 entries where 1 are expected"),
        (setting("accesses", "buffer", 0, value=99), "`accesses.buffer[0]` is 99, outside"),
        (setting("accesses", "buffer", 0, value=10**30), "`accesses.buffer` holds a number outside"),
        (setting("accesses", "buffer", 0, value=True), "`accesses.buffer[0]` is True"),
        (setting("accesses", "kind", value=[1, 0, 0, 1, 0, 1]), "`accesses.instruction` is not in order"),
        (setting("accesses", "bytes", 0, value=float("inf")), "`accesses.bytes`"),
        (setting("buffers", "definition", value=[-1, 1, 1]), "`accesses.buffer[1]`|`buffers.definition[1]`"),
        (setting("buffers", "output", 0, value=1), "`buffers.output[0]` is 1"),
        (setting("loops", "last", 0, value=2), "`instructions.loop` does not agree"),
        (setting("loops", "parent", 0, value=0), "`loops.parent` names a loop that comes later"),
        (setting("target", "alignment", value=0), "`target.alignment` is 0, out of range"),
        (setting("target", "colour", value="red"), "`target` has the fields"),
        (setting("target", "fast_bytes", value="many"), "`target.fast_bytes` is 'many'"),
        (setting("cycles", value=[1]), "`cycles` is not a dict"),
        (setting("buffers", "size", 1, value=72), "`sha256` does not match the contents"),
    ],
)
def test_a_wrong_program_file_is_refused(edit: Callable[[dict[str, Any]], None], field: str, tmp_path: Path) -> None:
    path = tmp_path / "program.json.gz"
    write_program(small(), path)
    change(path, edit)
    with pytest.raises(FormatError) as error:
        read_program(path)
    assert str(error.value).startswith(f"{path}: ")
    assert any(part in str(error.value) for part in field.split("|")), str(error.value)
    assert "; " in str(error.value), "the message says what to do"


@pytest.mark.parametrize(
    ("edit", "field"),
    [
        (setting("program_sha256", value="0" * 64), "belongs to another program"),
        (setting("accesses_fast", value=[99]), "`accesses_fast` names an access outside"),
        (setting("accesses_fast", value=[0.5]), "`accesses_fast[0]` is 0.5"),
        (removing("copies", "replaces"), "`copies.replaces` is missing"),
        (setting("residencies", "buffer", value=[1]), "`residencies` has columns of different lengths"),
        (setting("origin", value=None), "`origin` is not a dict"),
    ],
)
def test_a_wrong_mapping_file_is_refused(edit: Callable[[dict[str, Any]], None], field: str, tmp_path: Path) -> None:
    path, program = tmp_path / "mapping.json.gz", small()
    write_mapping(all_hbm(program), program, path)
    change(path, edit)
    with pytest.raises(FormatError) as error:
        read_mapping(path, program)
    assert str(error.value).startswith(f"{path}: ")
    assert field in str(error.value)


def test_files_that_are_no_program_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "program.json.gz"
    with pytest.raises(UserError, match="cannot be read"):
        read_program(path)
    write_program(small(), path)
    whole = path.read_bytes()
    broken = whole[:-20], whole[: len(whole) // 2]
    for content in (b"", b"HloModule jit_f", *broken, gzip.compress(b"{"), gzip.compress(b"[]")):
        path.write_bytes(content)
        with pytest.raises(FormatError, match=r"program\.json\.gz: "):
            read_program(path)
    path.write_bytes(whole)
    monkeypatch.setattr(files, "MAX_FILE_BYTES", 100)
    with pytest.raises(FormatError, match="unpacks to more than 100 bytes"):
        read_program(path)


def test_a_disk_that_takes_nothing_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "program.json.gz"
    write_program(small(), path)
    before = path.read_bytes()
    with pytest.raises(UserError, match="cannot be written"):
        write_program(small(), path / "below-a-file.json.gz")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(durable.os, "fsync", full)
    with pytest.raises(UserError, match="No space left on device"):
        write_program(small(), path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["program.json.gz"]
