"""Gives mappings of the contended programs for one chip back to the real compiler: latency promised and confirmed.

    python -m benchmarks.round_trip.measure --python PATH [--programs NAME ...|all] [--solver guided]
        [--solve-seconds 60] [--translate-seconds 60] [--candidates 4] [--compile-minutes 15] [--minutes M] [--out FILE]

Makes the runs that FILE (docs/results/round-trip.jsonl) lacks, small programs first, and appends each, so the command
may be stopped and repeated. A run maps a program by a solver, translates the mapping into compiler options, and asks
the compiler for the best options of each kind. Where the program has a cycle table, the best options of a first search
are compiled to the end before, and the other candidates afterwards, as far as the minutes suffice, as in `tune`. The
best confirmed options are kept. Seconds of solving and translating are processor time, minutes are wall time.

With `--solver flags-only` nothing is mapped, and options are flags alone, which name nothing of a program.

The settings of the flag grid, which results are compared with, are not among the candidates, though a candidate may
choose the same flags.

PATH: an interpreter with jax and libtpu, of the versions that the programs were captured with.

Then: python -m benchmarks.round_trip.page, or benchmarks.flags.page
"""

import argparse
import sys
from pathlib import Path
from typing import NamedTuple

from ..common.job_pool import one_thread, returning_traceback, run_missing

if __name__ == "__main__":
    one_thread()

from mallocmuzero.env import workloads
from mallocmuzero.env.capture.environment import interpreter_path
from mallocmuzero.roundtrip.source import program_path

from ..common.json_lines import Key, Record
from .records import RESULTS, key_of, programs, read
from .trip import Effort, add_arguments, effort_of, outcome_of, round_trip


class Job(NamedTuple):
    """One program's round trip."""

    program: str
    python: str
    effort: Effort

    def __str__(self) -> str:
        """Returns the name of the run for people."""
        return self.program


@returning_traceback
def perform(job: Job) -> Record:
    """Runs a job in this process; returns the record."""
    program = workloads.load(job.program)
    record = round_trip(program, program_path(job.program), Path(job.python), job.effort)
    return {**record, "split": workloads.split(program.name)}


def missing(job: Job, known: dict[Key, Record]) -> bool:
    """Returns whether a job has to run."""
    sha256 = workloads.load(job.program).sha256[:12]
    return key_of({"program": job.program, "program_sha256": sha256, **job.effort._asdict()}) not in known


def main() -> int:
    """Runs what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", type=interpreter_path, required=True, metavar="PATH")
    parser.add_argument(
        "--programs", nargs="+", metavar="NAME", help="or `all`; by default all contended ones for one chip"
    )
    add_arguments(parser, solve_s=60.0, translate_s=60.0)
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="FILE")
    parser.set_defaults(jobs=1, dry_run=False)
    given = parser.parse_args()
    chosen = workloads.names() if given.programs == ["all"] else given.programs or programs()
    wanted = [Job(name, str(given.python), effort_of(given)) for name in chosen]
    return run_missing(
        wanted,
        perform,
        missing,
        lambda: read([given.out]),
        outcome_of,
        arguments=given,
        seconds=lambda job: job.effort.solve_s + job.effort.translate_s,
    )


if __name__ == "__main__":
    sys.exit(main())
