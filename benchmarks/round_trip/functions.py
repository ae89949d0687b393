"""Round trips of functions that are captured for the purpose, not taken from the benchmark."""

from pathlib import Path
from typing import NamedTuple

from mallocmuzero.env.bounds.bound import bound
from mallocmuzero.env.capture.capture import capture
from mallocmuzero.env.physics.objective import ROBUST
from mallocmuzero.env.program.program import Program
from mallocmuzero.env.program.program_file import read_program

from ..common.job_pool import returning_traceback
from ..common.json_lines import ROOT, Record
from .trip import Effort, round_trip, say

# Further compilations of a capture, for its cycle table.
_PASSES = 2
# Limit of a bound, in seconds.
_BOUND_S = 30.0


class Job(NamedTuple):
    """The round trip of one function.

    Attributes:
      function, module: the function and the module that has it, importable from this repository's folder.
      target: a generation.
      folder: keeps the captures.
      python: the interpreter that compiles.
      effort: what the round trip may take.
    """

    function: str
    module: str
    target: str
    folder: str
    python: str
    effort: Effort

    def __str__(self) -> str:
        """Returns the name of the run for people."""
        return f"{self.function} {self.target}"


@returning_traceback
def perform(job: Job) -> Record:
    """Runs a job in this process; returns the record."""
    python, path = Path(job.python), Path(job.folder) / f"{job.function}-{job.target}.json.gz"
    program = captured(f"{job.module}:{job.function}", job.target, path, python)
    return {
        **round_trip(program, path, python, job.effort),
        "bound": bound_of(program),
        "function": job.function,
        "accesses": program.num_accesses,
        "loops": len(program.loop_trips),
    }


def bound_of(program: Program) -> float | None:
    """Returns the least that any mapping may take under `robust`, as a share of production; None without production."""
    found = bound(program, ROBUST, _BOUND_S)
    return found.bound_s / found.production_s if found.production_s else None


def captured(function: str, target: str, path: Path, python: Path, *, quick: bool = False) -> Program:
    """Returns the program of a function, from its file, which is made where it is missing.

    Args:
      function: `PKG.MODULE:FUNCTION`, importable from this repository's folder.
      target: a generation.
      path: the file.
      python: the interpreter that compiles.
      quick: compile until memory is assigned; the program then has no cycle table.
    """
    if path.exists():
        return read_program(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    return capture(
        function,
        target,
        path,
        python=python,
        working_folder=ROOT,
        passes=0 if quick else _PASSES,
        quick=quick,
        progress=say,
    )
