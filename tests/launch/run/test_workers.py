"""Solving in several processes: the best of all, equal seeds repeat, a stop keeps a mapping, a failure is told."""

import json
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import pytest
from launch_cases import call

import mallocmuzero
from mallocmuzero.env.errors import UserError
from mallocmuzero.env.program.mapping import CROSS_PROGRAM
from mallocmuzero.env.program.program_file import write_program
from mallocmuzero.env.workloads import load
from mallocmuzero.launch.run import solve_worker
from mallocmuzero.launch.run.solve_worker import PROGRAM as PROGRAM_FILE
from mallocmuzero.launch.run.solve_worker import REQUEST, RESULT
from mallocmuzero.launch.run.workers import Request, solve_with_workers
from mallocmuzero.solvers.common.budget import Budget, Status
from mallocmuzero.solvers.common.exchange import Exchange
from mallocmuzero.solvers.common.seeds import worker_seeds
from mallocmuzero.solvers.solve import solve

PROGRAM = "resnet50-b32-v4"


def request(seed: int = 0, games: int = 300, solver: str = "restarts") -> Request:
    return Request(solver, "msa", Budget(None, games), seed, None, None, False)


def test_the_best_worker_wins_and_equal_seeds_repeat() -> None:
    program = load(PROGRAM)
    alone = [
        solve(program, "restarts", objective="msa", budget=Budget(None, 300), seed=seed) for seed in worker_seeds(3, 2)
    ]
    assert alone[0].judged_s != alone[1].judged_s
    together = [solve_with_workers(program, request(3), 2) for _ in range(2)]
    best = min(alone, key=lambda solution: solution.judged_s)
    for solution in together:
        assert solution.judged_s == best.judged_s
        assert solution.mapping.origin == best.mapping.origin
        assert solution.evaluations == sum(each.evaluations for each in alone)
        assert (solution.seed, solution.stopped) == (3, False)


@pytest.mark.parametrize(
    ("budget", "together", "shown"),
    [(Budget(1.0), True, True), (Budget(1.0), False, False), (Budget(None, 300), True, False)],
)
def test_workers_show_their_plans_where_they_need_not_repeat(
    tmp_path: Path, budget: Budget, together: bool, shown: bool
) -> None:
    program = load(PROGRAM)
    write_program(program, tmp_path / PROGRAM_FILE)
    fields = {**request(solver="anneal")._asdict(), "budget": asdict(budget), "together": together, "seeds": [0, 1]}
    (tmp_path / REQUEST).write_text(json.dumps(fields), encoding="utf-8")
    worker = [sys.executable, "-m", solve_worker.__name__, str(tmp_path), "0"]
    with subprocess.Popen(worker, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        results = [json.loads(line) for line in process.stdout]
    assert RESULT in results[-1]
    assert [find["plan"].shape for _, find in Exchange(tmp_path, 1, 2).finds()] == [(program.num_accesses,)] * shown


def test_workers_prefetch_across_programs_what_they_may() -> None:
    program = load("dlrm-train-b2048")
    for crossable, some in ((None, True), ((), False)):
        asked = request(games=400, solver="anneal")._replace(crossable=crossable)
        copies = solve_with_workers(program, asked, 1).mapping.copies
        assert (copies[:, 1] == CROSS_PROGRAM).any() == some


def test_a_stop_keeps_the_best_mapping_and_progress_sums_the_workers() -> None:
    shown: list[Status] = []
    solution = solve_with_workers(
        load(PROGRAM),
        request()._replace(budget=Budget(100.0)),
        2,
        shown.append,
        lambda: any(each.best_s < float("inf") for each in shown),
    )
    assert solution.stopped
    assert not solution.ended
    assert solution.seconds < 50.0
    assert solution.judged_s <= min(each.best_s for each in shown)
    assert "2 workers" in shown[-1].doing
    assert solution.evaluations >= shown[-1].evaluations


def test_a_worker_that_cannot_use_the_request_says_why() -> None:
    with pytest.raises(UserError, match="no solver is called 'nobody'"):
        solve_with_workers(load("tiny"), request(solver="nobody"), 2)


def test_a_worker_that_dies_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(UserError, match=r"worker . of 2 ended with status 1; use fewer --workers"):
        solve_with_workers(load("tiny"), request(), 2)
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(UserError, match="cannot be started"):
        solve_with_workers(load("tiny"), request(), 2)


def test_the_command_and_the_function_count_workers(tmp_path: Path) -> None:
    arguments = ("solve", "tiny", "--solver", "restarts", "--evaluations", "50", "--workers", "2", "--objective", "msa")
    status, text, _ = call(*arguments, "-o", str(tmp_path / "a.json.gz"), "--json", "-")
    assert status == 0
    result = json.loads(text)
    assert (result["workers"], result["evaluations"], result["verified"]) == (2, 100, True)
    solved = mallocmuzero.solve("tiny", solver="restarts", evaluations=50, objective="msa", workers=2)
    assert solved.judged_us == pytest.approx(result["latency_us"])
    assert "by 2 workers" in " ".join(solved.lines())
    status, _, errors = call("solve", "tiny", "--workers", "0", "-o", str(tmp_path / "b.json.gz"))
    assert status == 2
    assert "--workers 0" in errors


@pytest.mark.parametrize(
    "command", [("solve", "tiny"), ("tune", "nobody:step", "--target", "v5e"), ("impose", "tiny", "mapping.json.gz")]
)
def test_more_workers_than_a_machine_can_hold_are_refused(command: tuple[str, ...], tmp_path: Path) -> None:
    status, _, errors = call(*command, "--workers", "100000", "-o", str(tmp_path / "b.json"))
    assert status == 2
    assert "--workers 100000: too many" in errors
    assert "the number of cores here" in errors


def test_ctrl_c_ends_the_workers_and_writes_the_mapping(tmp_path: Path) -> None:
    path = tmp_path / "mapping.json.gz"
    command = [sys.executable, "-m", "mallocmuzero", "solve", PROGRAM, "--solver", "restarts", "--objective", "msa"]
    with subprocess.Popen(
        [*command, "--seconds", "500", "--workers", "2", "-o", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "2 workers" in line:  # a status: the workers are at it
                break
        begun = time.monotonic()
        process.send_signal(signal.SIGINT)
        text, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert time.monotonic() - begun < 30
    assert f"wrote {path}" in text
    status, _, _ = call("verify", PROGRAM, str(path))
    assert status == 0
