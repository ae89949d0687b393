"""Files of options: what is written is read, in both forms, and what is none is said."""

from pathlib import Path

import pytest
from compiler_cases import TAKEN

from mallocmuzero.env.errors import UserError
from mallocmuzero.roundtrip.options_file import read_options, write_options


@pytest.mark.parametrize("name", ["options.json", "options", "options.flags"])
@pytest.mark.parametrize("options", [{}, {"xla_msa_max_repacks": "3", "xla_tpu_msa_order": TAKEN, "a": "b=c"}])
def test_what_is_written_is_read(tmp_path: Path, name: str, options: dict[str, str]) -> None:
    write_options(options, tmp_path / name)
    assert read_options(tmp_path / name) == options


def test_a_file_of_flags_has_one_on_a_line_and_may_have_notes(tmp_path: Path) -> None:
    path = tmp_path / "options.flags"
    write_options({"a": "1", "b": "c { d: 2 }"}, path)
    assert path.read_text(encoding="utf-8") == "--a=1\n--b=c { d: 2 }\n"
    path.write_text("# of jax 0.10.2\n\n  --a=1\n", encoding="utf-8")
    assert read_options(path) == {"a": "1"}


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("options.json", b"--a=1", "is no JSON .*ends with .flags if it is one of flags"),
        ("options.json", b"[" * 100_000, "options.json: is no JSON"),
        ("options.json", b"[1]", "is no JSON object"),
        ("options.json", b'{"a": 1}', "`a` is int, not a text"),
        ("options.flags", b"--a=1\n-b=2", "options.flags:2: is no --NAME=VALUE"),
        ("options.flags", b'{"a": "1"}', "options.flags:1: is no --NAME=VALUE"),
        ("options.flags", b"--a", "options.flags:1: is no --NAME=VALUE"),
        ("options.json", b"\xff", "is no text"),
        ("nowhere/options.json", None, "cannot be read"),
    ],
)
def test_what_is_none(tmp_path: Path, name: str, data: bytes | None, message: str) -> None:
    if data is not None:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(UserError, match=message):
        read_options(tmp_path / name)
