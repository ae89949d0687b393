"""The commands that ask the compiler, for a version of jax that the user names, with a recorded compiler."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from compiler_cases import WITH_CYCLES, recorded, requests
from launch_cases import call

from mallocmuzero.env.capture import environment

MINE = {"xla_tpu_of_mine": "7"}


def test_every_command_compiles_with_the_version_that_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python, asked = recorded(tmp_path, WITH_CYCLES), []

    def made(progress: Callable[[str], None], jax: str | None = None) -> Path:
        asked.append(jax)
        return python

    monkeypatch.setattr(environment, "managed_python", made)
    (tmp_path / "models.py").write_text("def my_step(): ...\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    program, mapping, options, mine = (
        str(tmp_path / name) for name in ("p.json.gz", "m.json.gz", "o.json", "mine.json")
    )
    Path(mine).write_text(json.dumps(MINE), encoding="utf-8")
    for command in (
        (
            "capture",
            "models:my_step",
            "--target",
            "v5e",
            "--jax",
            "0.9.2",
            "--option",
            "xla_tpu_of_mine=7",
            "-o",
            program,
        ),
        ("solve", program, "--solver", "xla", "--seconds", "1", "-o", mapping),
        ("impose", program, mapping, "--jax", "0.9.2", "--seconds", "0", "-o", options),
        ("confirm", "models:my_step", mine, "--target", "v5e", "--jax", "0.9.2"),
    ):
        status, _, errors = call(*command)
        assert status == 0, (command, errors)
    assert asked == ["0.9.2"] * 3
    assert all(request["options"].items() >= MINE.items() for request in requests(tmp_path))
    # What the program was compiled with is needed where the options are used, too.
    assert json.loads(Path(options).read_text(encoding="utf-8")) == MINE
    tune = ("tune", "models:my_step", "--target", "v5e", "--jax", "0.9.1", "--minutes", "0.1", "--objective", "msa")
    status, _, errors = call(*tune, "--flags-only", "-o", options)
    assert status == 0, errors
    assert asked[3:] == ["0.9.1"]
