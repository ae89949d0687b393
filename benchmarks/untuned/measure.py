"""Captures the functions of this folder, maps them, and has the real compiler confirm the mappings.

    python -m benchmarks.untuned.measure [--functions NAME ...] [--targets v5e ...] [--folder runs/untuned]
        [--solver guided] [--solve-seconds 10] [--translate-seconds 30] [--candidates 4] [--compile-minutes 15]
        [--minutes M] [--out FILE] [--dry-run]

Appends the runs that FILE (docs/results/untuned.jsonl) lacks, so the command may be stopped and repeated. FOLDER keeps
the captures. A run is a round trip as `benchmarks.round_trip` makes it, under `robust`, and a bound, which may take 30
seconds. Seconds of solving and translating are processor time, minutes are wall time. The settings of the flag grid,
which results are compared with, are not among the candidates, though a candidate may choose the same flags.

Then: python -m benchmarks.untuned.page
"""

import argparse
import sys
from pathlib import Path
from typing import NamedTuple

from ..common.job_pool import one_thread, returning_traceback, run_missing

if __name__ == "__main__":
    one_thread()

from mallocmuzero.env.bounds.bound import bound
from mallocmuzero.env.capture.capture import capture
from mallocmuzero.env.capture.environment import managed_python
from mallocmuzero.env.physics.objective import ROBUST
from mallocmuzero.env.program.program import Program
from mallocmuzero.env.program.program_file import read_program

from ..common.json_lines import ROOT, Record, keyed_by, read_runs
from ..round_trip.trip import Effort, add_arguments, effort_of, outcome_of, round_trip, say

RESULTS = ROOT / "docs" / "results" / "untuned.jsonl"
FUNCTIONS = (
    "gpt_muon",
    "state_space",
    "experts",
    "fourier_operator",
    "graph_messages",
    "convolutions_3d",
    "decode_int8",
    "policy_gradient",
    "preconditioned",
    "beam_search",
    "diffusion_sampling",
    "scanned_adafactor",
    "speech_ctc",
    "line_search",
    "hybrid_layers",
)
# Further compilations of a capture, for its cycle table.
_PASSES = 2
# Limit of a bound, in seconds.
_BOUND_S = 30.0
key_of = keyed_by("function", "target", "solver", "solve_s", "translate_s")


class Job(NamedTuple):
    """The round trip of one function."""

    function: str
    target: str
    folder: str
    effort: Effort

    def __str__(self) -> str:
        """Returns the name of the run for people."""
        return f"{self.function} {self.target}"


@returning_traceback
def perform(job: Job) -> Record:
    """Runs a job in this process; returns the record."""
    python = managed_python(say)
    path = Path(job.folder) / f"{job.function}-{job.target}.json.gz"
    program = captured(job.function, job.target, path, python)
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
    """Returns the program of a function of this folder, from its file, which is made where it is missing.

    Args:
      function: name of the function.
      target: a generation.
      path: the file.
      python: the interpreter that compiles.
      quick: compile until memory is assigned; the program then has no cycle table.
    """
    if path.exists():
        return read_program(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    return capture(
        f"benchmarks.untuned.functions:{function}",
        target,
        path,
        python=python,
        working_folder=ROOT,
        passes=0 if quick else _PASSES,
        quick=quick,
        progress=say,
    )


def main() -> int:
    """Runs what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--functions", nargs="+", choices=FUNCTIONS, default=FUNCTIONS, metavar="NAME")
    parser.add_argument("--targets", nargs="+", default=["v5e"], metavar="TARGET")
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "untuned", metavar="FOLDER")
    add_arguments(parser, solve_s=10.0, translate_s=30.0)
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="FILE")
    parser.add_argument("--dry-run", action="store_true", help="list the missing runs only")
    parser.set_defaults(jobs=1)
    given = parser.parse_args()
    effort = effort_of(given)
    wanted = [
        Job(function, target, str(given.folder), effort) for target in given.targets for function in given.functions
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


if __name__ == "__main__":
    sys.exit(main())
