"""Interpreters given by relative paths compile in other folders too."""

import sys
from pathlib import Path

import pytest
from compiler_cases import interpreter

from benchmarks.versions import measure


def test_interpreters_are_told_by_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "python").symlink_to(interpreter(tmp_path / "base", """echo '["0.9.2", "0.0.37"]'"""))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        sys, "argv", ["measure", "--jax", "--pythons", "./python", "--functions", "a:v5e", "--confirmed"]
    )
    wanted: list[measure.Job] = []
    monkeypatch.setattr(measure, "run_missing", lambda jobs, *_, **__: wanted.extend(jobs))
    measure.main()
    (job,) = wanted
    # Not where the link leads: its folder tells Python which packages it has.
    assert (job.python, job.jax, job.libtpu) == (str(tmp_path / "python"), "0.9.2", "0.0.37")
