"""Looks for the best size of scoped memory of the benchmark's programs, as `tune --scoped-memory` does.

    python -m benchmarks.scoped_memory.measure [--workloads NAME ...] [--jobs 1] [--minutes 15] [--budget-minutes M]
        [--out FILE] [--machine LABEL] [--dry-run]

By default it takes the programs that have a cycle table, those with the fewest accesses first. Each program is compiled
to the end two to six times, for `--minutes` at most. Appends the programs that FILE
(docs/results/scoped-memory.jsonl) lacks, so the command may be stopped and repeated.

Then: python -m benchmarks.scoped_memory.page
"""

import argparse
import sys
import time
from pathlib import Path
from typing import NamedTuple

from ..common.job_pool import add_arguments, one_thread, returning_traceback, run_missing

if __name__ == "__main__":
    one_thread()

from mallocmuzero.env.capture.environment import managed_python
from mallocmuzero.env.program.program_file import read_module
from mallocmuzero.env.workloads import MODELS_PARENT, load, names, workload
from mallocmuzero.roundtrip.scoped_memory import compiler_of, find_size

from ..common.json_lines import ROOT, Record, keyed_by, read_runs
from ..round_trip.trip import say

RESULTS = ROOT / "docs" / "results" / "scoped-memory.jsonl"
# Seconds that a program takes, in the middle.
_TYPICAL_S = 150.0
key_of = keyed_by("program")


class Job(NamedTuple):
    """One program of the benchmark."""

    program: str
    python: str
    minutes: float
    machine: str

    def __str__(self) -> str:
        """Returns the name of the program."""
        return self.program


@returning_traceback
def perform(job: Job) -> Record:
    """Runs a job in this process; returns the record."""
    entry, program = workload(job.program), load(job.program)
    begin = time.monotonic()
    sizes = find_size(
        compiler_of(
            entry.reference,
            entry.target,
            entry.options,
            python=Path(job.python),
            module=read_module(entry.path),
            working_folder=MODELS_PARENT,
        ),
        entry.target,
        begin + 60.0 * job.minutes,
        lambda line: None,
    )
    return {
        "program": job.program,
        "split": entry.split,
        "target": entry.target,
        "accesses": program.num_accesses,
        "kib": sizes.best.kib,
        "scavenges": sizes.best.scavenges,
        "sizes": [size.record for size in (sizes.default, *sizes.tried)],
        "seconds": round(time.monotonic() - begin, 1),
        "machine": job.machine,
    }


def outcome_of(_: object, record: Record) -> str:
    """Returns the outcome of a run in one line."""
    default = record["sizes"][0]
    best = best_of(record)
    if default["error"] is not None:
        return str(default["error"])
    gain = 100.0 * (1.0 - best["us"]["cycles"] / default["us"]["cycles"])
    return f"{record['kib']} KiB, scavenging {record['scavenges']}, {gain:.2f} % (cycles), {record['seconds']} s"


def best_of(record: Record) -> Record:
    """Returns the best setting of a record."""
    wanted = record["kib"], record["scavenges"]
    return next(size for size in record["sizes"] if (size["kib"], size["scavenges"]) == wanted)  # type: ignore[no-any-return]


def main() -> int:
    """Runs what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", nargs="*", metavar="NAME")
    parser.add_argument("--minutes", type=float, default=15.0, metavar="M", help="time for one program")
    add_arguments(parser, RESULTS)
    given = parser.parse_args()
    programs = given.workloads
    if programs is None:
        with_cycles = [program for program in map(load, names()) if program.cycles is not None]
        programs = [program.name for program in sorted(with_cycles, key=lambda program: program.num_accesses)]
    python = "" if given.dry_run else str(managed_python(say))
    return run_missing(
        [Job(name, python, given.minutes, given.machine) for name in programs],
        perform,
        lambda job, known: key_of(job._asdict()) not in known,
        lambda: dict(read_runs([given.out], key_of)),
        outcome_of,
        arguments=given,
        seconds=lambda job: _TYPICAL_S,
    )


if __name__ == "__main__":
    sys.exit(main())
