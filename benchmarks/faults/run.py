"""A training run for injected faults: started, watched from outside, resumed, and held to its promises."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from mallocmuzero.launch.run.checkpoints import RunCheckpoints
from mallocmuzero.launch.run.directory import RunDirectory

PROGRAM = "tiny"
ACTORS = 2
CALL_TIMEOUT_S = 30.0
# Small, so that games, updates, evaluations and checkpoints are always under way.
SETTINGS = {
    "network.width": 16,
    "network.projection_width": 16,
    "network.grid_channels": [4],
    "learner.batch_size": 8,
    "learner.unroll_steps": 2,
    "learner.td_steps": 3,
    "actor.games": 4,
    "search.simulations": 2,
    "replay.capacity": 2000,
    "replay.min_size": 20,
    "replay.samples_per_insert": 2.0,
    "replay.error_buffer": 20.0,
    "replay.insert_timeout_s": 1.0,
    "schedule.slice_moves": 16,
    "schedule.publish_period": 3,
    "schedule.evaluate_period": 100,
    "schedule.evaluate_simulations": 0,
    "schedule.report_seconds": 0.5,
    "schedule.checkpoint_minutes": 0.1,
    "ray.restarts": 1000,
}
# Metrics that never decrease from one line of the metric file to the next.
_GROWING = ("time", "minutes", "step", "play/moves", "play/episodes", "replay/inserts", "restarts/actor",
            "restarts/evaluator", "blocked/actors_s", "blocked/learner_s")  # fmt: skip
_END_S = 120.0


@dataclass(frozen=True)
class Standing:
    """Progress of a run by its metric file and folders.

    Attributes:
      step, moves: of the last line; -1 without a line.
      best_us: latency of the best mapping in its file; None without one.
      checkpoint: number of the last checkpoint; 0 without one.
    """

    step: int
    moves: int
    best_us: float | None
    checkpoint: int


class Run:
    """A run directory, and the process that trains in it, if any.

    Attributes:
      path: the run directory.
      status: exit status of the last process that ended, or None.
      on_resume: further arguments of the command that resumes it.
    """

    def __init__(self, path: Path, console: Path, call_timeout_s: float = CALL_TIMEOUT_S) -> None:
        self.path = path
        self._settings = {**SETTINGS, "ray.call_timeout_s": call_timeout_s}
        self.status: int | None = None
        self.on_resume: tuple[str, ...] = ()
        self._console = console
        self._directory = RunDirectory(path)
        self._process: subprocess.Popen[bytes] | None = None
        self._family: dict[int, psutil.Process] = {}

    @property
    def alive(self) -> bool:
        """True while the process that trains lives."""
        if self._process is None:
            return False
        if self._process.poll() is None:
            return True
        self.status, self._process = self._process.returncode, None
        return False

    def start(self) -> None:
        """Begins the run or resumes it, by the command that a user gives."""
        arguments = ["train", "--run-dir", str(self.path)]
        if self._directory.manifest_file.exists():
            arguments += ["--resume", *self.on_resume]
        else:
            arguments += ["--workload", PROGRAM, "--topology", "ray", "--actors", str(ACTORS)]
            for name, value in self._settings.items():
                arguments += ["--set", f"{name}={json.dumps(value)}"]
        with self._console.open("ab") as console:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "mallocmuzero.launch.cli", *arguments],
                stdout=console,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._family = {}

    def look(self) -> None:
        """Notes all descendants of the process that trains, to find them if they are left behind."""
        if self._process is not None:
            with contextlib.suppress(psutil.NoSuchProcess):
                root = psutil.Process(self._process.pid)
                for process in (root, *root.children(recursive=True)):
                    self._family.setdefault(process.pid, process)

    def processes(self, text: str) -> list[psutil.Process]:
        """Returns the running processes whose command line contains `text`, oldest first; stopped ones excluded."""
        self.look()
        found = []
        for process in self._living():
            with contextlib.suppress(psutil.NoSuchProcess):
                at_work = process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_STOPPED)
                if at_work and text in " ".join(process.cmdline()):
                    found.append(process)
        return sorted(found, key=lambda process: process.create_time())

    @property
    def driver(self) -> psutil.Process:
        """The driver: the process that the user started."""
        assert self._process is not None
        return psutil.Process(self._process.pid)

    def family(self) -> list[psutil.Process]:
        """Returns all processes noted by `look`, ended ones included."""
        return list(self._family.values())

    def stop(self) -> int:
        """Interrupts the run as Ctrl-C does; returns its exit status."""
        self.look()
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(_END_S)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
        assert not self.alive
        return -1 if self.status is None else self.status

    def standing(self) -> Standing:
        """Returns the progress of the run."""
        lines = list(self._lines())
        numbers = RunCheckpoints(self._directory.checkpoints, 1).numbers()
        return Standing(
            max((line["step"] for line in lines), default=-1),
            max((int(line.get("play/moves", -1)) for line in lines), default=-1),
            self.best_us(),
            max(numbers, default=0),
        )

    def best_us(self) -> float | None:
        """Returns the latency of the best mapping on disk in microseconds, or None without one."""
        from mallocmuzero.actors.self_play.config import ActorConfig
        from mallocmuzero.env.program.mapping_file import read_mapping
        from mallocmuzero.env.workloads import load

        path = self._directory.best / f"{PROGRAM}.mapping.json.gz"
        if not path.exists():
            return None
        program = load(PROGRAM)
        return ActorConfig().judge(program).judge(read_mapping(path, program)) * 1e6

    def log_size(self) -> int:
        """Returns the bytes of the log."""
        return self._directory.log_file.stat().st_size if self._directory.log_file.exists() else 0

    def log_since(self, offset: int) -> list[str]:
        """Returns the lines of the log after an offset, without their times."""
        with contextlib.suppress(OSError), self._directory.log_file.open("rb") as file:
            file.seek(offset)
            text = file.read().decode("utf-8", "replace")
            return [line.partition(": ")[2] for line in text.splitlines() if ": " in line]
        return []

    def console_since(self, offset: int) -> list[str]:
        """Returns the lines of the terminal after an offset."""
        return self._console.read_bytes()[offset:].decode("utf-8", "replace").splitlines()

    def console_size(self) -> int:
        """Returns the bytes shown on the terminal."""
        return self._console.stat().st_size if self._console.exists() else 0

    def broken_promises(self) -> list[str]:
        """Returns the lines of the metric file that decrease a counter or repeat an earlier line.

        Evaluations have lines of their own, with the step of the evaluated parameters.
        """
        found: list[str] = []
        last, times, evaluated = dict.fromkeys(_GROWING, float("-inf")), set(), set()
        for number, line in enumerate(self._lines(), 1):
            if "play/moves" not in line:
                if line["step"] in evaluated:
                    found.append(f"line {number}: a second evaluation of step {line['step']}")
                evaluated.add(line["step"])
                continue
            if line["time"] in times:
                found.append(f"line {number}: a second line of the same time")
            times.add(line["time"])
            for name in _GROWING:
                if name in line:
                    if line[name] < last[name]:
                        found.append(f"line {number}: {name} goes from {last[name]} to {line[name]}")
                    last[name] = line[name]
        return found

    def _lines(self) -> Iterator[dict[str, Any]]:
        if self._directory.metrics_file.exists():
            for line in self._directory.metrics_file.read_bytes().split(b"\n")[:-1]:
                yield json.loads(line)

    def _living(self) -> Iterable[psutil.Process]:
        return [process for process in self._family.values() if process.is_running()]


def end_all(processes: list[psutil.Process], within_s: float) -> list[str]:
    """Waits `within_s` for processes to end and kills the rest; returns their command lines."""
    _, left = psutil.wait_procs(processes, timeout=within_s)
    names = []
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.status() != psutil.STATUS_ZOMBIE:
                names.append(f"{' '.join(process.cmdline())[:80]} ({process.status()})")
                process.kill()
    return names


def wait_until(condition: Any, timeout_s: float, every_s: float = 0.3) -> bool:
    """Waits until a condition holds; returns whether it held in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(every_s)
    return True
