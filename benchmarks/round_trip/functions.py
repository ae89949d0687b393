"""Round trips of functions that are captured for the purpose, not taken from the benchmark."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from mallocmuzero.env.bounds.bound import bound
from mallocmuzero.env.capture.capture import capture
from mallocmuzero.env.physics.objective import ROBUST
from mallocmuzero.env.program.program import Program
from mallocmuzero.env.program.program_file import read_program

from ..common.job_pool import returning_traceback, run_missing
from ..common.json_lines import ROOT, Record, keyed_by, read_runs
from .trip import Effort, add_arguments, effort_of, outcome_of, round_trip, say

key_of = keyed_by("function", "target", "solver", "solve_s", "translate_s")
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


def add_function_arguments(parser: argparse.ArgumentParser, functions: Sequence[str], folder: str, out: Path) -> None:
    """Adds which functions to run, for which targets, and what a round trip may take.

    Args:
      parser: the parser of a benchmark.
      functions: names of all functions.
      folder: keeps the captures, within `runs`.
      out: file of records.
    """
    parser.add_argument("--functions", nargs="+", choices=functions, default=functions, metavar="NAME")
    parser.add_argument("--targets", nargs="+", default=["v5e"], metavar="TARGET")
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / folder, metavar="FOLDER")
    add_arguments(parser, solve_s=10.0, translate_s=30.0)
    parser.add_argument("--out", type=Path, default=out, metavar="FILE")
    parser.add_argument("--dry-run", action="store_true", help="list the missing runs only")


def run_functions(given: argparse.Namespace, module: str, python: str) -> int:
    """Runs the round trips that have no record yet; returns the exit status of the benchmark.

    Args:
      given: the arguments of `add_function_arguments`, and `jobs`.
      module: the module of the functions.
      python: the interpreter that compiles.
    """
    effort = effort_of(given)
    wanted = [
        Job(function, module, target, str(given.folder), python, effort)
        for target in given.targets
        for function in given.functions
    ]
    return run_missing(
        wanted,
        perform,
        lambda job, known: key_of({**job._asdict(), **job.effort._asdict()}) not in known,
        lambda: dict(read_runs([given.out], key_of)),
        outcome_of,
        arguments=given,
        seconds=lambda job: job.effort.solve_s + job.effort.translate_s,
    )
