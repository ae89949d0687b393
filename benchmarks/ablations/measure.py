"""Trains the agent with its defaults and with one thing changed, at equal processor time, for the ablations.

    python -m benchmarks.ablations.measure [--rows NAME ...] [--programs NAME ...] [--seeds 3] [--minutes M] [--jobs N]
        [--budget-minutes T] [--order seed row program] [--out FILE] [--known FILE ...] [--machine LABEL] [--dry-run]

Rows are declared in benchmarks/ablations/rows.toml. A run trains on one program for M minutes of processor time on one
thread (`common/timed_training.py`) and measures the best mapping, the policy alone and the policy with search. Makes
the runs that FILE (docs/results/ablations.jsonl) lacks for the present version of the agent and appends each, so the
command may be stopped and repeated. Programs are of the train split; no other is allowed.

Then: python -m benchmarks.ablations.page
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from ..common.job_pool import add_arguments, one_thread, returning_traceback, run_missing

if __name__ == "__main__":
    one_thread()

from mallocmuzero.env import workloads
from mallocmuzero.version import VERSION

from ..common.json_lines import Record
from ..common.timed_training import configure, train_timed
from .records import RESULTS, identity, key_of, read, refusal, rows

# Contended programs of the train split, small enough that a minute or two of training is informative.
PROGRAMS = (
    "dlrm-b2048",
    "resnet50-b128",
    "resnet50-b32-v4",
    "graph-network-train",
    "resnet18-train-b64",
    "dlrm-train-b2048",
)
_ORDERS = ("seed", "row", "program")
# Runs in one process share compiled functions; a new process gives their memory back.
_JOBS_PER_PROCESS = 12


class Job(NamedTuple):
    """One run."""

    program: str
    row: str
    settings: dict[str, Any]
    seconds: float
    seed: int
    machine: str

    def __str__(self) -> str:
        """Returns the name of the run for people."""
        return f"{self.program} {self.row}, seed {self.seed}"

    @property
    def identity(self) -> Record:
        """The fields that make the key of its record."""
        return identity(self.program, self.row, self.settings, self.seconds, self.seed)


@returning_traceback
def perform(job: Job) -> Record:
    """Runs a job in this process; returns the record."""
    begin = time.process_time()
    trained = train_timed(configure(job.settings, job.program, job.seed), job.seconds)
    return {
        **job.identity,
        **trained.as_json(),
        "processor_s": round(time.process_time() - begin, 2),
        "machine": job.machine,
        "version": VERSION,
    }


def jobs_of(arguments: argparse.Namespace) -> list[Job]:
    """Returns all runs that the options ask for and that the agent has settings for, in order."""
    declared = rows()
    names = arguments.rows or list(declared)
    position = {
        "seed": lambda job: job.seed,
        "row": lambda job: names.index(job.row),
        "program": lambda job: arguments.programs.index(job.program),
    }
    jobs = [
        Job(program, name, declared[name].settings, 60 * arguments.minutes, seed, arguments.machine)
        for name in names
        if refusal(declared[name]) is None
        for program in arguments.programs
        for seed in range(arguments.seeds)
    ]
    return sorted(jobs, key=lambda job: tuple(position[what](job) for what in arguments.order))


def outcome_of(job: Job, record: Record) -> str:
    """Returns the outcome of a run in one line."""
    shares = ", ".join(f"{what} {100 * record[what]:.3f} %" for what in ("first", "best", "policy", "search"))
    return f"{shares}; {record['updates']} updates, {record['moves']} moves, {record['wall_s']:.0f} s wall"


def main() -> int:
    """Runs what is missing."""
    declared = rows()
    train = [name for name in workloads.names() if workloads.split(name) == "train"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", choices=list(declared), metavar="NAME", help="by default all")
    parser.add_argument("--programs", nargs="+", default=list(PROGRAMS), choices=train, metavar="NAME")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=1.0, help="of processor time per run")
    parser.add_argument("--order", nargs="+", default=list(_ORDERS), choices=_ORDERS)
    add_arguments(parser, RESULTS)
    parser.add_argument("--known", type=Path, nargs="*", default=[], metavar="FILE", help="more files of runs")
    arguments = parser.parse_args()
    for name in arguments.rows or declared:
        reason = refusal(declared[name])
        if reason is not None:
            print(f"{name}: not run: {reason}", file=sys.stderr)
    return run_missing(
        jobs_of(arguments),
        perform,
        lambda job, known: key_of(job.identity) not in known,
        lambda: read([*arguments.known, arguments.out]),
        outcome_of,
        arguments=arguments,
        seconds=lambda job: job.seconds,
        jobs_per_process=_JOBS_PER_PROCESS,
    )


if __name__ == "__main__":
    sys.exit(main())
