"""The pool of jobs: failures are reported and do not end the other jobs, recorded jobs are not run again."""

import argparse
from pathlib import Path

import pytest

from benchmarks.common.job_pool import add_arguments, returning_traceback, run_jobs, run_missing
from benchmarks.common.json_lines import Record, append, keyed_by, read_runs


@returning_traceback
def perform(job: int) -> Record:
    if job == 2:
        raise ValueError("two is no job")
    return {"job": job}


def test_a_failure_is_reported_and_other_jobs_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "runs.jsonl"
    failed = run_jobs([1, 2, 3, 4], perform, lambda job: job != 4, lambda job, record: f"did {record['job']}", out)
    assert failed == 1
    assert [key for key, _ in read_runs([out], lambda record: record["job"])] == [1, 3]
    captured = capsys.readouterr()
    assert "ValueError: two is no job" in captured.err
    assert "2: failed" in captured.err
    assert "3: did 3" in captured.out


@pytest.mark.parametrize("dry", [True, False])
def test_jobs_with_a_record_are_not_run_again(tmp_path: Path, capsys: pytest.CaptureFixture[str], dry: bool) -> None:
    out, key_of = tmp_path / "runs.jsonl", keyed_by("job")
    append(out, {"job": 1})
    parser = argparse.ArgumentParser()
    add_arguments(parser, out)
    status = run_missing(
        [1, 3],
        perform,
        lambda job, known: key_of({"job": job}) not in known,
        lambda: dict(read_runs([out], key_of)),
        lambda job, record: "done",
        arguments=parser.parse_args(["--dry-run"] if dry else []),
        seconds=lambda job: 1800.0,
    )
    assert status == 0
    assert [key for key, _ in read_runs([out], lambda record: record["job"])] == ([1] if dry else [1, 3])
    assert "1 runs missing, 0.5 hours" in capsys.readouterr().out


def test_keys_tell_settings_apart_whatever_their_order() -> None:
    key_of = keyed_by("settings", "seed")
    one, other = (
        {"settings": settings, "seed": 0, "machine": "a"} for settings in ({"a": 1, "b": 2}, {"b": 2, "a": 1})
    )
    assert key_of(one) == key_of(other) != key_of({"settings": {"a": 1}, "seed": 0})
