"""Runs a solver in several processes at once, each with its own seed and the whole budget, and keeps the best mapping.

Each process reads the program from a file and writes its mapping to one. With a limit of seconds, solvers that race
also show each other their best plans (`solvers/common/exchange.py`). With a limit of games alone the processes
share nothing, so results repeat however the machine divides its cores.
"""

import contextlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from ...env.errors import UserError
from ...env.program.mapping_file import read_mapping
from ...env.program.program import Program
from ...env.program.program_file import write_program
from ...env.verifier.verify import verify
from ...solvers.common.budget import Budget, Progress, Status
from ...solvers.common.seeds import worker_seeds
from ...solvers.solve import Solution
from . import solve_worker
from .solve_worker import ERROR, PROGRAM, REQUEST, RESULT, STATUS, mapping_file

_LOOK_S = 0.1
# Seconds that a worker has after Ctrl-C to finish its mapping.
_PATIENCE_S = 60.0
_THREADS = ("OMP", "OPENBLAS", "MKL", "NUMBA")
# More workers than this for each core are a slip of the finger: each has memory of its own, and the machine runs out.
_MOST_PER_CORE = 8


class Request(NamedTuple):
    """A request to all workers.

    Attributes:
      solver, objective, policy, placebo, repack: see `mallocmuzero.solve`.
      budget: of each worker.
      seed: of the first worker; the others' are derived from it.
      together: whether workers see each other's plans, where they have a limit of seconds.
      crossable: numbers of the inputs that may be prefetched across programs; None for all that the game allows.
    """

    solver: str
    objective: str | None
    budget: Budget
    seed: int
    policy: str | None
    placebo: str | None
    repack: bool
    together: bool = True
    crossable: tuple[int, ...] | None = None


def check_workers(workers: int) -> None:
    """Checks the number of worker processes that a command is asked for.

    Raises:
      UserError: it is below 1, or so large that the machine would run out of memory.
    """
    if workers < 1:
        raise UserError(f"--workers {workers} would search with nobody; give 1 or more")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if workers > _MOST_PER_CORE * cores:
        raise UserError(
            f"--workers {workers}: too many, each keeps a core busy and has memory of its own; give {cores}, the "
            f"number of cores here, or {_MOST_PER_CORE * cores} at most"
        )


def solve_with_workers(
    program: Program,
    request: Request,
    workers: int,
    progress: Progress | None = None,
    stop: Callable[[], bool] | None = None,
) -> Solution:
    """Maps a program with a solver in `workers` processes; on `stop` and on Ctrl-C the best mapping so far is kept.

    Returns:
      The solution of the best worker, the first of equals; the mapping's origin has this worker's seed. Evaluations are
      the sum over all workers, seconds those of the slowest.

    Raises:
      UserError: a worker cannot use the request, or died.
    """
    with tempfile.TemporaryDirectory(prefix="mallocmuzero-") as name:
        folder = Path(name)
        write_program(program, folder / PROGRAM)
        fields = {
            **request._asdict(),
            "budget": asdict(request.budget),
            "seeds": worker_seeds(request.seed, workers),
        }
        (folder / REQUEST).write_text(json.dumps(fields), encoding="utf-8")
        results = _Crew(folder, workers).run(progress, stop)
        best = min(range(workers), key=lambda number: (results[number]["judged_s"], number))
        mapping = read_mapping(mapping_file(folder, best), program)
    violations = verify(program, program.target, mapping)
    if violations:
        raise RuntimeError(f"worker {best + 1} made an illegal mapping of {program.name!r}: {violations[0].message}")
    return Solution(
        request.solver,
        request.seed,
        results[best]["objective"],
        mapping,
        results[best]["judged_s"],
        sum(result["evaluations"] for result in results),
        max(result["seconds"] for result in results),
        any(result["stopped"] for result in results),
        all(result["ended"] for result in results),
    )


class _Crew:
    """The processes of the workers."""

    def __init__(self, folder: Path, workers: int) -> None:
        self._folder, self._workers = folder, workers
        self._processes: list[subprocess.Popen[str]] = []
        # The number of a worker with a line of its output, or with None at the end.
        self._said: queue.Queue[tuple[int, str | None]] = queue.Queue()
        self._status: list[dict[str, Any] | None] = [None] * workers
        self._results: list[dict[str, Any] | None] = [None] * workers
        self._stopped_at: float | None = None

    def run(self, progress: Progress | None, stop: Callable[[], bool] | None) -> list[dict[str, Any]]:
        """Starts the workers, waits for all, and returns their results. No process outlives the call."""
        try:
            for number in range(self._workers):
                self._start(number)
            ended = 0
            while ended < self._workers:
                try:
                    if stop is not None and stop():
                        self._stop()
                    ended += self._listen(progress)
                except KeyboardInterrupt:
                    if self._stopped_at is not None:
                        raise
                    self._stop()
                if self._stopped_at is not None and time.monotonic() - self._stopped_at > _PATIENCE_S:
                    raise UserError(f"a worker did not stop within {_PATIENCE_S:.0f} seconds; nothing has been written")
        finally:
            for process in self._processes:
                if process.poll() is None:
                    process.kill()
                process.wait()
                for stream in (process.stdin, process.stdout):
                    with contextlib.suppress(OSError):
                        assert stream is not None
                        stream.close()
        return [result for result in self._results if result is not None]

    def _start(self, number: int) -> None:
        # One thread each: the workers together keep the cores busy.
        environment = {**os.environ, **{f"{name}_NUM_THREADS": "1" for name in _THREADS}}
        with self._errors(number).open("wb") as errors:
            try:
                # In its own group: Ctrl-C in the terminal goes to this process, which asks the workers to stop.
                process = subprocess.Popen(
                    [sys.executable, "-m", solve_worker.__name__, str(self._folder), str(number)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    env=environment,
                    text=True,
                    process_group=0,
                )
            except OSError as error:
                raise UserError(
                    f"worker {number + 1} of {self._workers} cannot be started ({error.strerror}); use fewer --workers"
                ) from error
        self._processes.append(process)
        threading.Thread(target=self._read, args=(number, process), daemon=True).start()

    def _errors(self, number: int) -> Path:
        return self._folder / f"errors-{number}.txt"

    def _read(self, number: int, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        with contextlib.suppress(ValueError, OSError):  # closed once the crew is done with it
            for line in process.stdout:
                self._said.put((number, line))
        self._said.put((number, None))

    def _stop(self) -> None:
        """Asks all workers to stop with the best mapping so far."""
        if self._stopped_at is not None:
            return
        self._stopped_at = time.monotonic()
        for process in self._processes:
            assert process.stdin is not None
            with contextlib.suppress(OSError):
                process.stdin.close()

    def _listen(self, progress: Progress | None) -> int:
        """Takes a line, if one comes soon, and shows the progress; returns how many workers ended with it."""
        try:
            number, line = self._said.get(timeout=_LOOK_S)
        except queue.Empty:
            return 0
        if line is None:
            self._check(number)
            return 1
        said = json.loads(line)
        if ERROR in said:
            raise UserError(said[ERROR])
        if RESULT in said:
            self._results[number] = said[RESULT]
        if STATUS in said:
            self._status[number] = said[STATUS]
            if progress is not None:
                progress(self._summary())
        return 0

    def _check(self, number: int) -> None:
        """Raises UserError if a worker ended without a result."""
        status = self._processes[number].wait()
        if self._results[number] is not None:
            return
        lines = self._errors(number).read_text(encoding="utf-8", errors="replace").strip().splitlines()
        why = f"signal {-status}, perhaps for want of memory" if status < 0 else f"status {status}"
        raise UserError(
            f"worker {number + 1} of {self._workers} ended with {why}"
            + (f": {lines[-1].strip()}" if lines else "")
            + "; use fewer --workers, or one to see the whole error"
        )

    def _summary(self) -> Status:
        """Returns the status of all workers as one: the best mapping, and what its worker is doing."""
        known = [status for status in self._status if status is not None]
        best = min(known, key=lambda status: float("inf") if status["best_s"] is None else status["best_s"])
        return Status(
            max(status["seconds"] for status in known),
            sum(status["evaluations"] for status in known),
            float("inf") if best["best_s"] is None else best["best_s"],
            f"{self._workers} workers · {best['doing']}",
            best["production_s"],
            best["objective"],
        )
