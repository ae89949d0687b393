"""The file of `--json`: it is whole or not there, and an earlier one survives a failure."""

import json
from pathlib import Path

import pytest

from mallocmuzero.env.errors import UserError
from mallocmuzero.env.storage import atomic
from mallocmuzero.launch.terminal.json_output import write_json


def test_numbers_that_are_not_finite_become_null(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    value = {"a": [float("inf"), 1.5], "b": (float("nan"), "x")}
    write_json(value, str(tmp_path / "x.json"))
    write_json(value, "-")
    written = (tmp_path / "x.json").read_text(encoding="utf-8")
    assert written == capsys.readouterr().out
    assert json.loads(written) == {"a": [None, 1.5], "b": [None, "x"]}


def test_a_file_that_is_there_survives_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.json"
    path.write_text("{}", encoding="utf-8")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic.os, "fsync", full)
    with pytest.raises(UserError, match=r"x\.json: cannot be written \(No space left on device\)"):
        write_json({"a": 1}, str(path))
    assert path.read_text(encoding="utf-8") == "{}"
    assert list(tmp_path.iterdir()) == [path]
