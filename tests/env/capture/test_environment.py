"""The managed environment: made once, and a clear error if it cannot be made."""

from pathlib import Path

import pytest
from compiler_cases import interpreter

from mallocmuzero.env.capture import environment
from mallocmuzero.env.errors import UserError


def test_the_managed_environment_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    ran: list[list[str]] = []

    def pretend(command: list[str]) -> None:
        ran.append(command)
        if "venv" in command:
            (Path(command[-1]) / "bin").mkdir(parents=True)
            (Path(command[-1]) / "bin" / "python").touch()

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(environment, "_run", pretend)
    said: list[str] = []
    python = environment.managed_python(said.append)
    assert python.is_relative_to(tmp_path / "mallocmuzero")
    assert "making the capture environment" in said[0]
    assert f"libtpu=={environment.packages()['libtpu']}" in ran[1]
    assert environment.managed_python(said.append) == python
    assert len(ran) == 2


def test_a_managed_environment_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(environment, "packages", lambda: {"no-such-package-at-all": "0.0.0"})
    monkeypatch.setattr(
        environment.sys, "executable", str(interpreter(tmp_path, "echo 'ERROR: no network' >&2; exit 1"))
    )
    with pytest.raises(
        UserError, match=r"cannot make the capture environment: .* failed: ERROR: no network; give --python"
    ):
        environment.managed_python(lambda line: None)
