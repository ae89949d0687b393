"""A sample of the faults that benchmarks/faults/measure.py does to a run, and the page of faults beside its results."""

import importlib.util
import random
from pathlib import Path

import pytest

from benchmarks.faults import measure as faults
from benchmarks.faults import page as faults_page
from benchmarks.faults import run as fault_run

_CALL_TIMEOUT_S = 10.0
_GONE_S = 60.0


@pytest.mark.skipif(
    importlib.util.find_spec("ray") is None or importlib.util.find_spec("reverb") is None,
    reason="needs mallocmuzero[cluster]",
)
def test_a_run_survives_a_stopped_actor_and_a_killed_driver(tmp_path: Path) -> None:
    run = fault_run.Run(tmp_path / "run", tmp_path / "console", _CALL_TIMEOUT_S)
    try:
        for kind, by in (("stopped", "itself"), ("driver", "resume")):
            record = faults.suffer(run, kind, random.Random(kind))
            assert record["well"], (record, run.console_since(0)[-5:])
            assert record["by"] == by
            assert record["said"]
            assert not record["best_lost"]
            assert (record["left_behind"], record["broken_promises"], record["traceback"]) == ([], [], False)
    finally:
        status = run.stop()
        left = fault_run.end_all(run.family(), _GONE_S)
    assert (status, left) == (130, [])


def test_the_page_says_what_the_results_say() -> None:
    page = faults_page.PAGE.read_text(encoding="utf-8")
    assert faults_page.render(page, faults_page.read()) == page, "python -m benchmarks.faults.page renders it"


def test_faults_come_in_turn_and_at_random() -> None:
    kinds = ["a", "b", "c"]
    turns = [[faults.kind_of(number, 0, kinds) for number in range(first, first + 3)] for first in range(1, 31, 3)]
    assert all(sorted(turn) == kinds for turn in turns)
    assert len({tuple(turn) for turn in turns}) > 1


def test_what_goes_back_or_is_there_twice_is_found(tmp_path: Path) -> None:
    run = fault_run.Run(tmp_path, tmp_path / "console")
    lines = [{"time": 1.0, "step": 1, "play/moves": 5}, {"time": 2.0, "step": 2, "play/moves": 6}]

    def write(*lines: dict[str, float]) -> None:
        text = "".join(f"{line}\n".replace("'", '"') for line in lines)
        (tmp_path / "metrics.jsonl").write_text(text)

    write(*lines)
    assert run.broken_promises() == []
    assert (run.standing().step, run.standing().moves) == (2, 6)
    write(*lines, lines[1])
    assert run.broken_promises() == ["line 3: a second line of the same time"]
    write(*lines, {"time": 3.0, "step": 1, "play/moves": 6})
    assert run.broken_promises() == ["line 3: step goes from 2 to 1"]
    evaluation = {"time": 3.0, "step": 1}
    write(*lines, evaluation, evaluation)
    assert run.broken_promises() == ["line 4: a second evaluation of step 1"]
