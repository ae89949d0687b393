"""The benchmark of solvers: the runs that count, the statistics of the tables, and the page beside its results."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.common import json_lines, versions
from benchmarks.solvers import measure as solvers_command
from benchmarks.solvers import page as solver_page
from benchmarks.solvers import records as solver_records
from benchmarks.solvers import references as solver_references
from benchmarks.solvers import tables as solver_tables
from mallocmuzero.env.workloads import load


def key_for(solver: str, seconds: float, seed: int = 0) -> json_lines.Key:
    return solver_records.key_of(solver_records.identity(load("tiny"), solver, None, seconds, seed))


def run_of(key: json_lines.Key, **other: Any) -> json_lines.Record:
    record = dict(zip(solver_records.FIELDS, key, strict=True))
    record |= {
        "versions": versions.versions_of(key[4]),
        "ratio": 0.9,
        "ended": False,
        "seconds": key[5],
        "machine": "a",
    }
    return record | other


OLD = {"versions": {"game": 0, "anneal": 1}}


def test_the_page_says_what_the_results_say() -> None:
    known = json.loads(solver_page.REFERENCES.read_text(encoding="utf-8"))
    runs = solver_records.read([solver_records.RESULTS])
    board = solver_page.make_board(runs, known["programs"])
    page = solver_page.PAGE.read_text(encoding="utf-8")
    faster = solver_page.make_board(solver_records.read([solver_records.FASTER]), known["programs"])
    assert len({run["machine"] for run in faster.runs}) == 1
    assert solver_page.render(page, board, faster) == page, "python -m benchmarks.solvers.page renders it"


def test_references_are_those_of_the_programs() -> None:
    known = {e["program"]: e for e in json.loads(solver_page.REFERENCES.read_text(encoding="utf-8"))["programs"]}
    for name in ("tiny", "resnet50-b128"):
        assert solver_references.reference(load(name)) == pytest.approx(known[name])


def test_runs_are_kept_read_and_joined(tmp_path: Path) -> None:
    key = key_for("anneal", 10)
    assert key[0] == "tiny"
    assert key[3] == "robust"
    old, new = run_of(key, **OLD), run_of(key, ratio=0.8)
    one, other = tmp_path / "one.jsonl", tmp_path / "other.jsonl"
    for path, record in ((one, new), (other, old)):
        json_lines.append(path, record)
    assert solver_records.read([one, other]) == {key: new}  # not the last one, but the one of the present version
    assert solver_records.read([other, tmp_path / "none"]) == {key: old}
    solver_records.write_sorted(one, solver_records.read([one, other]))
    assert solver_records.read([one]) == {key: new}
    one.write_text("no run\n", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"one\.jsonl:1"):
        solver_records.read([one])


def test_a_run_that_ended_stands_for_larger_budgets() -> None:
    short, long = (key_for("anneal", seconds) for seconds in (10, 60))
    assert solver_records.lookup({short: run_of(short)}, long) is None
    assert solver_records.lookup({short: run_of(short, ended=True)}, long) is not None
    assert solver_records.lookup({long: run_of(long, ended=True)}, short) is None
    greedy, other_seed = (key_for("greedy", 10, seed) for seed in (0, 1))
    assert solver_records.lookup({greedy: run_of(greedy, ended=True)}, other_seed) is not None
    job = solvers_command.Job("tiny", "anneal", None, 60.0, 0, "a")
    assert solvers_command.missing(job, {short: run_of(short)}, False)
    assert solvers_command.missing(job, {long: run_of(long, **OLD)}, False)
    assert not solvers_command.missing(job, {long: run_of(long, **OLD)}, True)
    assert not solvers_command.missing(job, {long: run_of(long)}, False)


def test_a_run_is_a_record(tmp_path: Path) -> None:
    record = solvers_command.perform(solvers_command.Job("tiny", "greedy", None, 60.0, 0, "a"))
    assert isinstance(record, dict), record
    assert record["ended"]
    assert 0.8 < record["ratio"] < 1.0
    assert solver_records.key_of(record) == key_for("greedy", 60.0)
    assert versions.is_current(record)
    assert "Traceback" in solvers_command.perform(solvers_command.Job("tiny", "nobody", None, 1.0, 0, "a"))


_ENTRY = {"tuned": 0.98, "bound": 0.9, "training": False, "split": "train", "accesses": 10}


def run(program: str, solver: str, ratio: float | None, budget: float, seed: int = 0, ended: bool = False) -> Any:
    key = (program, "h", "j", "robust", solver, budget, seed)
    return run_of(key, ratio=ratio, ended=ended)


def test_means_wins_and_shares() -> None:
    references = {name: _ENTRY | {"program": name} for name in ("p", "q", "without production")}
    runs = [
        run("p", "anneal", 0.95, 10.0),
        run("p", "anneal", 0.93, 10.0, seed=1),
        run("q", "anneal", 0.98, 10.0),
        run("p", "greedy", 1.1, 10.0, ended=True),
        run("q", "greedy", 0.9, 10.0, ended=True),
        run("p", "anneal", 0.92, 60.0),
        run("without production", "anneal", None, 10.0),
    ]
    board = solver_tables.Board(runs, references)
    assert board.ratio("anneal", "p", 10.0) == pytest.approx(0.94)
    assert board.ratio("greedy", "p", 60.0) == 1.1  # had ended before
    assert board.ratio("anneal", "q", 60.0) is None
    assert board.programs(10.0) == ["p", "q"]
    assert board.solvers(10.0) == ["anneal", "greedy"]
    assert solver_tables.geometric_mean([0.5, 2.0])[0] == pytest.approx(1.0)
    text = "\n".join(solver_tables.means(board))
    assert "| `anneal` | 95.98 (94.0-98.0)" in text
    assert "| `anneal` | 1 | 1 | 0 | 40 % (20-60) |" in text
    assert "| `greedy` | 1 | 0 | 1 | 50 % (0-100) |" in text
    assert "| `p` | train | 98.00 | 90.00 | **94.00** | 110.00 | 60 % |" in "\n".join(solver_tables.programs(board))
    assert "; 0 of them by a solver's earlier version." in solver_tables.overview(board)[0]
    assert "`anneal` 95.98" in "\n".join(solver_tables.picks(board))


def test_seeds_tell_how_steady_a_solver_is() -> None:
    references = {name: _ENTRY | {"program": name} for name in ("p", "q")}
    runs = [run("p", "anneal", ratio, 10.0, seed=seed) for seed, ratio in enumerate((0.95, 0.94, 0.96))]
    runs += [run("q", "anneal", 0.9, 10.0, seed=seed) for seed in range(3)]
    runs += [run("p", "anneal", 0.97, 1.0), run("q", "anneal", 0.9, 1.0)]
    runs += [run("p", "cem", 0.93, 10.0), run("q", "cem", 0.95, 10.0)]
    lines = solver_tables.steady(solver_tables.Board(runs, references))
    assert lines[2:] == ["| 10 s | `anneal` | 3 | 2 | 0.52 | 1.05 | 1 | 1 | 0 |"]


@pytest.mark.parametrize(("shift", "ahead"), [(0.02, 1), (0.0, 0)])
def test_another_solver_is_ahead_if_chance_would_hardly_show_it(shift: float, ahead: int) -> None:
    ratios = (0.95, 0.94, 0.96, 0.945, 0.955)
    runs = [run("p", "guided", ratio, 10.0, seed=seed) for seed, ratio in enumerate(ratios)]
    runs += [run("p", "anneal", ratio - shift, 10.0, seed=seed) for seed, ratio in enumerate(ratios)]
    lines = solver_tables.steady(solver_tables.Board(runs, {"p": _ENTRY | {"program": "p"}}))
    found = {cells[2].strip(): int(cells[9]) for cells in (line.split("|") for line in lines[2:])}
    assert found == {"`guided`": ahead, "`anneal`": 0}


def test_longer_budgets_are_compared_program_by_program() -> None:
    references = {name: _ENTRY | {"program": name} for name in ("p", "q")}
    runs = [run("p", "guided", 0.95, 1.0), run("q", "guided", 0.9, 1.0, ended=True), run("p", "guided", 0.93, 10.0)]
    lines = solver_tables.more_time(solver_tables.Board(runs, references))
    assert lines[2] == "| `guided` | 1 s | 2 | 92.47 (90.0-95.0) | 75 % (50-100) | | | |"
    assert lines[3].startswith("| `guided` | 10 s | 1 | 93.00 (93.0-93.0) | 70 % (70-70) | 2.13 (2.13-2.13) | 2.13 |")
