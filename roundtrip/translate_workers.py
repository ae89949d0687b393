"""Translates a mapping in several processes at once, each with its own seed, and keeps the best of each kind.

The processes divide the climbs over the flags among them, and continue from the best that any process has found.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from ..env.errors import UserError
from ..env.physics.objective import Judge
from ..env.program.mapping import Mapping
from ..env.program.mapping_file import read_mapping, write_mapping
from ..env.program.program import Program
from ..env.program.program_file import write_program
from ..solvers.common.exchange import Exchange
from ..solvers.common.seeds import worker_seeds
from . import translate_worker
from .translate import Translation, best_of_each_kind, translate
from .translate_worker import MAPPING, PROGRAM, REQUEST, found_file, result_file

# A worker that is not done this many seconds after the time is up is killed.
_GRACE_S = 30.0


def translate_with_workers(
    judge: Judge,
    mapping: Mapping,
    seconds: float,
    *,
    seed: int = 0,
    workers: int = 1,
    clock: Callable[[], float] = time.monotonic,
) -> list[Translation]:
    """Translates a mapping in this process and `workers - 1` others; see `translate`.

    Returns:
      The best of each kind from all processes, best first. Their `decodes` count all processes.

    Raises:
      UserError: a worker died, or did not end.
    """
    if workers == 1:
        return translate(judge, mapping, seconds, seed=seed, clock=clock)
    with tempfile.TemporaryDirectory(prefix="mallocmuzero-") as name:
        folder = Path(name)
        write_program(judge.program, folder / PROGRAM)
        write_mapping(mapping, judge.program, folder / MAPPING)
        seeds = worker_seeds(seed, workers)
        fields = {"objective": judge.objective, "until": time.time() + seconds, "seeds": seeds}
        (folder / REQUEST).write_text(json.dumps(fields), encoding="utf-8")
        with _started(folder, range(1, workers)) as processes:
            until = time.monotonic() + seconds + _GRACE_S
            exchange = Exchange(folder, 0, workers)
            lists = [translate(judge, mapping, seconds, seed=seed, clock=clock, exchange=exchange)]
            for number, process in processes.items():
                _wait(process, max(0.0, until - time.monotonic()), f"worker {number + 1} of {workers}")
                lists.append(_read(folder, number, judge.program))
    decodes = sum(found[0].decodes for found in lists if found)
    return [replace(one, decodes=decodes) for one in best_of_each_kind(one for found in lists for one in found)]


@contextmanager
def _started(folder: Path, numbers: range) -> Iterator[dict[int, "subprocess.Popen[bytes]"]]:
    """Starts the workers; none outlives the context."""
    processes: dict[int, subprocess.Popen[bytes]] = {}
    try:
        for number in numbers:
            processes[number] = subprocess.Popen(
                [sys.executable, "-m", translate_worker.__name__, str(folder), str(number)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            )
        yield processes
    finally:
        for process in processes.values():
            if process.poll() is None:
                process.kill()
            process.wait()
            if process.stderr is not None:
                process.stderr.close()


def _wait(process: "subprocess.Popen[bytes]", seconds: float, name: str) -> None:
    try:
        _, said = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise UserError(f"{name} of the translation did not end in time; use fewer --workers") from None
    if process.returncode:
        lines = said.decode("utf-8", "replace").strip().splitlines()
        why = lines[-1].strip() if lines else f"status {process.returncode}"
        raise UserError(f"{name} of the translation failed: {why}; use fewer --workers")


def _read(folder: Path, number: int, program: Program) -> list[Translation]:
    listed = json.loads(result_file(folder, number).read_text(encoding="utf-8"))
    return [
        Translation(**fields, mapping=read_mapping(found_file(folder, number, place), program))
        for place, fields in enumerate(listed)
    ]
