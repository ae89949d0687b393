"""The faults that benchmarks/faults/measure.py does to a run, but for their doing, and the page of faults.

`tests/launch/ray/test_ray_topology.py` does two of them.
"""

from pathlib import Path

from benchmarks.faults import measure as faults
from benchmarks.faults import page as faults_page
from benchmarks.faults import run as fault_run


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
