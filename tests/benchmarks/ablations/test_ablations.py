"""The ablations: the runs that count, the pairs that are compared, and the page beside its results."""

import argparse
from pathlib import Path
from typing import Any

import pytest
from training_settings import SMALL

from benchmarks.ablations import measure as ablations_command
from benchmarks.ablations import page as ablation_page
from benchmarks.ablations import records as ablation_records
from benchmarks.ablations import tables as ablation_tables
from benchmarks.common import json_lines, timed_training
from mallocmuzero.env.errors import UserError
from mallocmuzero.env.workloads import split

REFERENCE = {"tuned": 0.98, "bound": 0.9, "program_sha256": "h", "judged_by": "j"}


def run_of(row: str, program: str, seed: int, best: float, **other: Any) -> json_lines.Record:
    record = {"program": program, "program_sha256": "h", "judged_by": "j", "row": row, "settings": {}}
    record |= {
        "budget_s": 60.0,
        "seed": seed,
        "versions": {"training": 1},
        "machine": "a",
        "updates": 10,
        "moves": 100,
        "first": 1.0,
    }
    return record | {"best": best, "policy": 1.1, "search": 1.05} | other


def board(runs: list[json_lines.Record]) -> ablation_tables.Ablations:
    rows = {name: ablation_records.Row("why", {}, None) for name in ("default", "other")}
    return ablation_tables.Ablations(rows, runs, {f"p{k}": REFERENCE | {"program": f"p{k}"} for k in range(6)})


def test_the_page_says_what_the_results_say() -> None:
    page = ablation_page.PAGE.read_text(encoding="utf-8")
    assert ablation_page.render(page, ablation_page.gather()) == page, "python -m benchmarks.ablations.page renders it"


def test_rows_change_what_they_say_and_nothing_that_the_agent_has() -> None:
    rows = ablation_records.rows()
    assert next(iter(rows)) == "default"
    assert rows["default"].settings == {}
    for name, row in rows.items():
        reason = ablation_records.refusal(row)
        assert reason is None or row.needs or "default" in reason, f"{name}: {reason}"
        assert row.needs is None or reason is not None, f"{name}: nothing is lacking any more"
    paper = timed_training.configure(rows["paper"].settings, "tiny", 3)
    assert (paper.seed, paper.actor.branch.share, paper.actor.follow, paper.actor.place_trivial) == (3, 0, False, True)
    assert ablation_records.refusal(ablation_records.Row("", {"actor.branch.moves": 32}, None)) is not None
    with pytest.raises(UserError, match=r"actor\.nothing"):
        timed_training.configure({"actor.nothing": 1}, "tiny", 0)


def test_programs_are_of_the_train_split() -> None:
    assert len(set(ablations_command.PROGRAMS)) >= ablation_tables.ENOUGH_PROGRAMS
    assert {split(name) for name in ablations_command.PROGRAMS} == {"train"}


def test_a_run_is_a_record_and_is_not_made_twice(tmp_path: Path) -> None:
    job = ablations_command.Job("tiny", "default", SMALL, 0.5, 0, "a")
    out = tmp_path / "runs.jsonl"
    record = ablations_command.perform(job)
    assert isinstance(record, dict), record
    assert record["spent_s"] >= 0.5
    assert record["updates"] > 0
    assert record["moves"] >= 32
    bound = 0.898
    assert bound < record["best"] <= record["first"] <= 1.1
    assert record["policy"] > bound
    json_lines.append(out, record)
    known = ablation_records.read([out])

    def key_of(job: ablations_command.Job) -> json_lines.Key:
        return ablation_records.key_of(job.identity)

    assert list(known) == [key_of(job)]
    more = SMALL | {"actor.branch.kick": 0.25}
    others = [job._replace(seed=1), job._replace(seconds=1.0), job._replace(row="paper"), job._replace(settings=more)]
    assert not known.keys() & {key_of(other) for other in others}
    json_lines.append(tmp_path / "old.jsonl", record | {"versions": {"game": 0, "training": 1}})
    assert key_of(job) not in ablation_records.read([tmp_path / "old.jsonl"])
    assert "Traceback" in ablations_command.perform(job._replace(settings={"actor.nothing": 1}))


def test_jobs_complete_rows_before_seeds() -> None:
    arguments = argparse.Namespace(
        rows=["default", "counterfactual", "q-mctx", "no-kick"],
        programs=["tiny", "dlrm-b2048"],
        seeds=2,
        minutes=1.0,
        machine="a",
        order=["seed", "row", "program"],
    )
    jobs = [(job.seed, job.row, job.program) for job in ablations_command.jobs_of(arguments)]
    assert len(jobs) == 12  # one row is what the agent has anyway
    assert jobs[:3] == [(0, "default", "tiny"), (0, "default", "dlrm-b2048"), (0, "q-mctx", "tiny")]
    assert [seed for seed, _, _ in jobs] == [0] * 6 + [1] * 6


def test_a_difference_is_between_equals() -> None:
    runs = [run_of("default", "p0", 0, 0.95), run_of("other", "p0", 0, 0.94)]
    (pair,) = board(runs).pairs("other")
    assert (pair.run["best"], pair.default["best"]) == (0.94, 0.95)
    for other in ({"versions": {"training": 2}}, {"budget_s": 90.0}, {"machine": "b"}, {"seed": 1}, {"program": "p1"}):
        assert board([runs[0], runs[1] | other]).pairs("other") == []
    later = {"versions": {"training": 2}}
    newer = [run_of("default", "p0", 0, 0.93, **later), run_of("other", "p0", 0, 0.9, **later)]
    assert [pair.run["best"] for pair in board(runs + newer).pairs("other")] == [0.9]
    assert [pair.default["best"] for pair in board(runs + newer).pairs("other")] == [0.93]


def test_what_is_sure_and_what_is_not() -> None:
    sure = ablation_tables.compare([[-0.02, -0.021, -0.019]] * 5 + [[-0.03, -0.01, -0.02]])
    assert sure.mean == pytest.approx(-0.02)
    assert sure.high < 0.0
    assert (sure.better, sure.worse) == (18, 0)
    assert sure.p == pytest.approx(2**-17)
    assert ablation_tables.verdict(sure, 6, 3) == "better"
    assert ablation_tables.verdict(sure, 6, 2) == "better so far"
    assert ablation_tables.verdict(sure, 5, 3) == ""
    # One program that gains much, whatever its seeds say, does not make a mean over six sure.
    one = ablation_tables.compare([[-0.2, -0.2, -0.2]] + [[0.001, -0.001, 0.0]] * 5)
    assert one.high > -0.001
    assert ablation_tables.verdict(one, 6, 3) == ""
    assert ablation_tables.verdict(ablation_tables.compare([[0.01], [-0.01], [0.02]]), 6, 3) == ""
    assert ablation_tables.verdict(ablation_tables.compare([[0.01], [0.03], [0.02]]), 6, 3) == "worse"
    assert ablation_tables.compare([[0.0], [0.0]]).p == 1.0


def test_tables() -> None:
    runs = []
    for k in range(6):
        for seed in range(3):
            runs += [run_of("default", f"p{k}", seed, 0.96), run_of("other", f"p{k}", seed, 0.95, policy=1.2)]
    found = board(runs)
    assert found.gain(runs[0]) == pytest.approx(0.4)
    best = 100 * (0.95 / 0.96 - 1.0)
    (row,) = [line for line in ablation_tables.differences(found) if line.startswith("| `other`")]
    assert f"| 6 x 3 | {best:+.2f} ({best:+.2f} to {best:+.2f}) | 18 / 0, 7.6e-06 |" in row
    assert row.endswith("| best mapping: better; policy alone: worse |")
    text = "\n".join(ablation_tables.means(found))
    assert "| `other` | 6 x 3 | 10 | 100 | 100.00 | 95.00 | 120.00 | 105.00 | 50 % |" in text
    assert "| `other` | 95.00 |" in "\n".join(ablation_tables.programs(found))
    assert "36 runs of 60 seconds" in ablation_tables.overview(found)[0]
