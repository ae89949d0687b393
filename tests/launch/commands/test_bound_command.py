"""`mallocmuzero bound`: figures, the mapping it writes, what it refuses, what a signal leaves."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from mallocmuzero.env.bounds.relaxation import build_relaxation
from mallocmuzero.env.physics.objective import make_judge
from mallocmuzero.env.program.mapping_file import read_mapping
from mallocmuzero.env.verifier.verify import verify
from mallocmuzero.env.workloads import load
from mallocmuzero.launch.cli import main


def test_a_bound_as_json_and_its_mapping(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "best.mapping.json.gz"
    arguments = ["bound", "tiny", "--objective", "msa", "--seconds", "30", "--json", "-", "-o", str(path)]
    assert main(arguments) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["scope"] == "legal"
    assert result["bound"] >= result["relaxation"] > 0
    assert result["bound"] <= result["best"] <= result["production"]
    assert result["best"] == min(result["best"], result["found"])
    program = load("tiny")
    mapping = read_mapping(path, program)
    assert verify(program, program.target, mapping) == []
    assert make_judge(program, "msa").judge(mapping) * 1e6 == pytest.approx(result["best"])


def test_the_table_names_what_is_bounded(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bound", "tiny", "--objective", "msa", "--scope", "game", "--seconds", "30"]) == 0
    printed = capsys.readouterr().out
    for words in (
        "mappings that the game can play",
        "linear relaxation, certified",
        "no mapping takes less",
        "Dropped",
    ):
        assert words in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bound", "tiny", "--scope", "all"], "no scope is called 'all'; the scopes are legal"),
        (["bound", "tiny", "--seconds", "0"], "needs time"),
        (["bound", "tiny", "--objective", "time"], "objective 'time' is not known"),
        (["bound", "nothing"], "no workload or program file is called 'nothing'"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_with_what_holds(
    number: signal.Signals,
    status: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def build(*arguments: Any) -> Any:
        os.kill(os.getpid(), number)
        return build_relaxation(*arguments)

    monkeypatch.setattr("mallocmuzero.env.bounds.bound.build_relaxation", build)
    path, figures = tmp_path / "best.mapping.json.gz", tmp_path / "bound.json"
    command = ["bound", "resnet50-b32-v4", "--seconds", "600", "-o", str(path), "--json", str(figures)]
    assert main(command) == status
    printed = capsys.readouterr()
    assert "stopping and saving; once more stops at once" in printed.err
    assert "It was stopped before its time" in printed.out
    result = json.loads(figures.read_text())
    assert (result["cut_short"], result["stopped"]) == (True, True)
    assert 0 < result["bound"] <= result["best"]
    program = load("resnet50-b32-v4")
    assert verify(program, program.target, read_mapping(path, program)) == []
