"""Tunes functions that nobody had tuned for, with a search for the best size of scoped memory and without.

    python -m benchmarks.scoped_memory.tuned [--functions NAME:TARGET ...] [--minutes 6] [--jobs 1]
        [--budget-minutes M] [--out FILE] [--machine LABEL] [--dry-run]

Both runs of a function get the same minutes of `mallocmuzero tune`. The functions are those of `benchmarks.untuned`.
Appends the runs that FILE (docs/results/scoped-memory-tuned.jsonl) lacks, so the command may be stopped and repeated.

Then: python -m benchmarks.scoped_memory.page
"""

import argparse
import sys
from typing import NamedTuple

from ..common.job_pool import add_arguments, one_thread, returning_traceback, run_missing

if __name__ == "__main__":
    one_thread()

import mallocmuzero
from mallocmuzero.env.capture.environment import managed_python

from ..common.json_lines import ROOT, Record, read_runs
from ..round_trip.trip import say
from ..untuned.measure import MODULE

RESULTS = ROOT / "docs" / "results" / "scoped-memory-tuned.jsonl"
FUNCTIONS = (
    "decode_int8:v6e",
    "graph_messages:v6e",
    "decode_int8:tpu7x",
    "diffusion_sampling:v6e",
    "graph_messages:tpu7x",
)
_FIELDS = ("default_us", "confirmed_us", "promised_us", "kept", "verdict", "options", "scoped_memory", "seconds")


class Job(NamedTuple):
    """One run of `tune`."""

    function: str
    target: str
    sized: bool
    python: str
    minutes: float
    machine: str

    def __str__(self) -> str:
        """Returns the name of the run for people."""
        return f"{self.function} {self.target}{' with sizes' if self.sized else ''}"


def key_of(record: Record) -> tuple[str, str, bool]:
    """Returns what distinguishes a run: function, target, and whether sizes were searched."""
    return record["function"], record["target"], record["sized"]


@returning_traceback
def perform(job: Job) -> Record:
    """Runs a job in this process; returns the record."""
    tuned = mallocmuzero.tune(
        f"{MODULE}:{job.function}",
        target=job.target,
        minutes=job.minutes,
        scoped_memory=job.sized,
        python=job.python,
        progress=lambda line: None,
    )
    given = {name: getattr(job, name) for name in ("function", "target", "sized", "minutes", "machine")}
    return given | {name: tuned.report[name] for name in _FIELDS}


def main() -> int:
    """Runs what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--functions", nargs="*", default=FUNCTIONS, metavar="NAME:TARGET")
    parser.add_argument("--minutes", type=float, default=6.0, metavar="M", help="time for one run of `tune`")
    add_arguments(parser, RESULTS)
    given = parser.parse_args()
    python = "" if given.dry_run else str(managed_python(say))
    wanted = [
        Job(*what.split(":", 1), sized, python, given.minutes, given.machine)
        for what in given.functions
        for sized in (False, True)
    ]
    return run_missing(
        wanted,
        perform,
        lambda job, known: key_of(job._asdict()) not in known,
        lambda: dict(read_runs([given.out], key_of)),
        lambda _, record: record["verdict"],
        arguments=given,
        seconds=lambda job: 60.0 * job.minutes,
    )


if __name__ == "__main__":
    sys.exit(main())
