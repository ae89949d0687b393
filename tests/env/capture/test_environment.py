"""The managed environment: made once, and a clear error if it cannot be made."""

import sys
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
    # Another version of jax has an environment of its own, with the libtpu that pip takes for it.
    other = environment.find_interpreter(None, "0.9.2", said.append)
    assert other != python
    assert ran[3][-3:] == ["jax[tpu]==0.9.2", "flax", "optax"]
    assert environment.find_interpreter(None, "0.9.2", said.append) == other
    monkeypatch.setattr(environment, "_has_libtpu", lambda: False)
    assert environment.find_interpreter(None, None, said.append) == python
    # Who has libtpu has the packages of the model too, and tunes for what is there.
    monkeypatch.setattr(environment, "_has_libtpu", lambda: True)
    assert environment.find_interpreter(None, None, said.append) == Path(sys.executable)
    assert environment.find_interpreter(None, "0.9.2", said.append) == other
    assert environment.find_interpreter(Path(sys.executable), None, said.append) == Path(sys.executable)
    assert len(ran) == 4


def test_an_interpreter_is_found_from_every_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "theirs" / "bin").mkdir(parents=True)
    (tmp_path / "base").mkdir()
    linked = tmp_path / "theirs" / "bin" / "python"
    linked.symlink_to(interpreter(tmp_path / "base", "exit 0"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "theirs/bin")
    # Not where the link leads: its folder tells Python which packages it has.
    for given in (Path("theirs/bin/python"), Path("python"), linked):
        assert environment.find_interpreter(given, None, lambda line: None) == linked
    for missing, why in ((Path("theirs/python"), "there is no such program"), (Path("theirs"), "it cannot be run")):
        for check in (environment.check_interpreter, lambda python: environment.find_interpreter(python, None, print)):
            with pytest.raises(UserError, match=f"--python {missing}: {why}"):
                check(missing)


def test_an_interpreter_with_a_slash_is_no_name_to_search_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for given, path in (("./python", tmp_path / "python"), ("python", Path("python")), (Path("a/b"), tmp_path / "a/b")):
        assert environment.interpreter_path(given) == path


def test_a_version_of_jax_is_checked_before_anything_is_made():
    for jax, python, words in (
        ("newest", None, "--jax newest: give a version, such as 0.9.2"),
        ("1", None, "--jax 1: give a version"),
        ("0.9.2", Path(sys.executable), "--jax 0.9.2: .* has a jax of its own; give --python or --jax"),
    ):
        with pytest.raises(UserError, match=words):
            environment.check_interpreter(python, jax)
    environment.check_interpreter(None, "0.9.2")


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        (
            "jax[tpu]==9.9 (from versions: 0.1)",
            r"--jax 9.9: pip finds no such version for Python 3\.\d+; give one that",
        ),
        ("jax[tpu]==9.9 (from versions: none)", "failed: ERROR: Could not find a version"),
        ("libtpu-nightly==1 (from jax[tpu]) (from versions: 2)", "failed: ERROR: Could not find a version"),
    ],
)
def test_a_version_of_jax_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str, words: str):
    said = [
        "ERROR: Ignored the following versions that require a different python version: 0.11.0 Requires-Python >=3.12"
    ]
    said.append(f"ERROR: Could not find a version that satisfies the requirement {missing}")
    venv = 'case "$*" in *venv*) mkdir -p "$3/bin"; cp "$0" "$3/bin/python"; exit 0;; esac'
    script = f"{venv}\ncat >&2 <<'END'\n{chr(10).join(said)}\nEND\nexit 1"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(environment.sys, "executable", str(interpreter(tmp_path, script)))
    with pytest.raises(UserError, match=words):
        environment.find_interpreter(None, "9.9", lambda line: None)


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
