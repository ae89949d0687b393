"""Runs of a benchmark: what goes wrong in one is told, and does not end the others."""

from pathlib import Path

from benchmarks.common.job_pool import run_jobs, telling
from benchmarks.common.json_lines import Record, read_runs


@telling
def perform(job: int) -> Record:
    if job == 2:
        raise ValueError("two is no job")
    return {"job": job}


def test_what_goes_wrong_is_told_and_other_runs_go_on(tmp_path: Path, capsys) -> None:  # type: ignore[no-untyped-def]
    out = tmp_path / "runs.jsonl"
    failed = run_jobs([1, 2, 3, 4], perform, lambda job: job != 4, lambda job, record: f"job {job}", out)
    assert failed == 1
    assert [key for key, _ in read_runs([out], lambda record: record["job"])] == [1, 3]
    captured = capsys.readouterr()
    assert "ValueError: two is no job" in captured.err
    assert "2: failed" in captured.err
    assert "job 3" in captured.out
