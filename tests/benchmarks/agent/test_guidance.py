"""Held-out programs with less fast memory: the records of runs, and the statistics of the tables."""

import argparse
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.agent import guidance as guidance_command
from benchmarks.agent import guidance_table
from benchmarks.agent.records import HELD_OUT, UNGUIDED
from mallocmuzero.env import workloads


def run_of(mode: str, program: str, ratio: float, seed: int = 0, seconds: float = 1.0) -> dict[str, Any]:
    return {"mode": mode, "program": program, "share": 0.5, "budget_s": seconds, "seed": seed, "ratio": ratio}


def table(*runs: dict[str, Any]) -> list[str]:
    return guidance_table.guidance({guidance_table.place_of(run): run for run in runs})


def test_runs_of_equal_seeds_are_held_against_each_other() -> None:
    lines = table(
        run_of(UNGUIDED, "p", 0.90),
        run_of(HELD_OUT, "p", 0.80),
        run_of(UNGUIDED, "p", 0.70, seed=1),
        run_of(HELD_OUT, "p", 0.70, seed=1),
        run_of(UNGUIDED, "p", 0.10, seed=2),  # has no counterpart
        run_of(UNGUIDED, "q", 1.00),
        run_of(HELD_OUT, "q", 1.00),
        run_of(UNGUIDED, "q", 0.95, seconds=5.0),
    )
    assert lines[2] == "| `p@0.5` | 80.00 | 75.00 | -6.25 % | - | - | - |"
    assert lines[3] == "| `q@0.5` | 100.00 | 100.00 | +0.00 % | - | - | - |"
    assert lines[4].startswith("| *all* |  |  | -2.9")  # half of half of log(8 / 9)
    assert lines[4].endswith("|  |  | - |")
    assert table() == ["No run yet."]


def test_other_solvers_are_held_against_ours_by_seeds_that_all_have() -> None:
    runs = [
        run_of(HELD_OUT, "p", 0.80),
        run_of("anneal", "p", 0.90),
        run_of("cem", "p", 0.80),
        run_of(HELD_OUT, "p", 0.10, seed=1),  # `cem` has no such run
        run_of("anneal", "p", 0.90, seed=1),
        run_of(HELD_OUT, "q", 0.50),
        run_of(HELD_OUT, "p", 0.70, seconds=5.0),
    ]
    lines = guidance_table.rivals({guidance_table.place_of(run): run for run in runs})
    assert lines[0] == "| 1 s | `guided` | `anneal` | `cem` |"
    assert lines[2] == "| `p@0.5` | 80.00 | 90.00 | 80.00 |"
    assert lines[3].startswith("| *all* | | -11.")
    assert len(lines) == 4
    assert guidance_table.rivals({}) == ["No run yet."]


@pytest.mark.parametrize("mode", [HELD_OUT, UNGUIDED, "anneal"])
def test_a_solution_of_a_smaller_memory_is_a_record(mode: str) -> None:
    job = guidance_command.Job(mode, "resnet50-b32-v4", 0.5, 0.5, 0, None, "a")
    record = guidance_command.perform(job)
    assert isinstance(record, dict), record
    assert 0.5 < record["ratio"] <= 1.0
    assert record["program_sha256"] != workloads.load("resnet50-b32-v4").sha256[:12]
    assert (record["policy_sha256"] is None) == (mode != HELD_OUT)
    assert guidance_command.key_of(record) == guidance_command.key_of(job.identity)


def test_no_program_that_the_policy_knows_is_asked_by_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: list[guidance_command.Job] = []
    monkeypatch.setattr(sys, "argv", ["guidance.py", "--out", str(tmp_path / "runs.jsonl"), "--seeds", "1"])
    monkeypatch.setattr(guidance_command, "run_missing", lambda jobs, *_, **__: seen.extend(jobs))
    guidance_command.main()
    assert {workloads.split(job.program) for job in seen} == {"heldout"}
    assert {job.mode for job in seen} == {HELD_OUT, UNGUIDED}
    arguments = argparse.Namespace(share=0.5, seconds=[1.0, 5.0], seeds=2, policy=None, machine="a", solvers=["cem"])
    jobs = guidance_command.jobs_of(arguments, ["a", "b"])
    assert len(set(jobs)) == 24
    assert [job.seed for job in jobs] == sorted(job.seed for job in jobs)
