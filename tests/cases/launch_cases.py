"""Small training runs for the tests of `launch`: seconds long, on a real program of 69 decisions."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from mallocmuzero.launch.cli import main
from mallocmuzero.launch.config.config import TrainConfig
from mallocmuzero.launch.config.overrides import Overrides

WORKLOAD = "resnet50-b32-v4"
# Small enough that compiling it is most of the time it takes.
WAIT_S = 400.0
SETTINGS = {
    "network.width": 16,
    "network.projection_width": 16,
    "network.grid_channels": [4],
    "learner.batch_size": 8,
    "learner.unroll_steps": 2,
    "learner.td_steps": 3,
    "learner.warmup_steps": 2,
    "actor.games": 4,
    "search.simulations": 2,
    "replay.capacity": 400,
    "replay.min_size": 20,
    "replay.samples_per_insert": 2.0,
    "replay.error_buffer": 20.0,
    "replay.insert_timeout_s": 1.0,
    "schedule.slice_moves": 16,
    "schedule.publish_period": 3,
    "schedule.evaluate_period": 8,
    "schedule.evaluate_simulations": 0,
    "schedule.report_seconds": 0.5,
    "schedule.checkpoint_minutes": 10.0,
}


def train_arguments(run_dir: Path, *more: str, workload: str = WORKLOAD, **settings: Any) -> list[str]:
    """The arguments of `mallocmuzero` for a new small run; settings as `section__key=value`."""
    values = {**SETTINGS, **{name.replace("__", "."): value for name, value in settings.items()}}
    assignments = [f"{name}={json.dumps(value)}" for name, value in values.items()]
    options = [part for assignment in assignments for part in ("--set", assignment)]
    return ["train", "--workload", workload, "--run-dir", str(run_dir), *options, *more]


def resolved(*assignments: str) -> TrainConfig:
    """The configuration of a run on `tiny` with these settings, given by `--set`."""
    overrides = Overrides()
    overrides.add({"workloads": ["tiny"]}, "--workload")
    for assignment in assignments:
        overrides.add_assignment(assignment)
    return overrides.resolve()


def call(*arguments: str) -> tuple[int, str, str]:
    """Calls the command line in this process; returns exit status, standard output and standard error."""
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        status = main(arguments)
    return status, output.getvalue(), errors.getvalue()


@contextlib.contextmanager
def started(arguments: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Runs the command line in a process group of its own, which ends with the context; its output goes to `log`."""
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "mallocmuzero.launch.cli", *arguments],
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def last_checkpoint(run_dir: Path) -> Path:
    """The folder of the newest checkpoint."""
    return sorted((run_dir / "checkpoints").glob("[0-9]*"))[-1]


def counters(run_dir: Path) -> dict[str, Any]:
    """The counters of the newest checkpoint."""
    result: dict[str, Any] = json.loads((last_checkpoint(run_dir) / "manifest.json").read_text())["counters"]
    return result


def metric_lines(run_dir: Path) -> list[dict[str, Any]]:
    """The lines of the metric file."""
    return [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]


def moves_so_far(run_dir: Path) -> int:
    """Moves by the metric file."""
    if not (run_dir / "metrics.jsonl").exists():
        return 0
    return max((int(line.get("play/moves", 0)) for line in metric_lines(run_dir)), default=0)


def wait_for_moves(run_dir: Path, count: int, process_id: int) -> None:
    """Waits until the run has made so many moves."""
    deadline = time.monotonic() + WAIT_S
    while moves_so_far(run_dir) < count:
        assert time.monotonic() < deadline
        assert psutil.pid_exists(process_id)
        time.sleep(0.2)
