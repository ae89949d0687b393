"""What each means is worth: the agent as it is, beside the agent with one thing changed, at equal processor time.

    python -m benchmarks.ablations.measure [--rows NAME ...] [--programs NAME ...] [--seeds 3] [--minutes M] [--jobs N]
        [--budget-minutes T] [--order seed row program] [--out FILE] [--known FILE ...] [--machine LABEL] [--dry-run]

Rows are declared in benchmarks/ablations.toml. A run trains one program for M minutes of processor time on one thread
(`timed_training.py`) and measures the best mapping, the policy alone and the policy with search. What FILE
(docs/results/ablations.jsonl) lacks for the code as it is now is run and added line by line, so the command may be
stopped and given again at any time. Programs are of the train split; no other is allowed.

Then: python -m benchmarks.ablations.page
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from ..common.job_pool import add_arguments, one_thread, run_jobs, telling

if __name__ == "__main__":
    one_thread()

from mallocmuzero.env import workloads
from mallocmuzero.version import VERSION

from ..common.json_lines import Record
from ..common.timed_training import agent_code, config_digest, configure, train_timed
from .records import RESULTS, judge_hash, key_for, read, refusal, rows

# Contended ones of the train split, small enough that a minute or two says something.
PROGRAMS = (
    "dlrm-b2048",
    "resnet50-b128",
    "resnet50-b32-v4",
    "graph-network-train",
    "resnet18-train-b64",
    "dlrm-train-b2048",
)
_ORDERS = ("seed", "row", "program")
# Runs in one process share what is compiled; memory is not given back for ever.
_JOBS_PER_PROCESS = 12


class Job(NamedTuple):
    """One run."""

    program: str
    row: str
    settings: dict[str, Any]
    seconds: float
    seed: int
    machine: str


@telling
def perform(job: Job) -> Record:
    """Runs a job in this process; returns the record."""
    code = agent_code()  # of what has just been imported
    program = workloads.load(job.program)
    config = configure(job.settings, program.name, job.seed)
    begin = time.process_time()
    trained = train_timed(config, job.seconds)
    return {
        "program": program.name,
        "program_sha256": program.sha256[:12],
        "judged_by": judge_hash(program),
        "row": job.row,
        "settings": job.settings,
        "config": config_digest(config),
        "budget_s": job.seconds,
        "seed": job.seed,
        "code": code,
        **trained.as_json(),
        "processor_s": round(time.process_time() - begin, 2),
        "machine": job.machine,
        "version": VERSION,
    }


def jobs_of(arguments: argparse.Namespace) -> list[Job]:
    """Returns all runs that are asked for and that this version can make, in order."""
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


def missing(job: Job, files: list[Path]) -> bool:
    """Returns whether a job has to run."""
    return key_for(job.program, job.row, job.settings, job.seconds, job.seed) not in read(files)


def line_of(job: Job, record: Record) -> str:
    """Returns a line about a run that has ended."""
    shares = ", ".join(f"{what} {100 * record[what]:.3f} %" for what in ("first", "best", "policy", "search"))
    took = f"{record['updates']} updates, {record['moves']} moves, {record['wall_s']:.0f} s wall"
    return f"{job.program} {job.row}, seed {job.seed}: {shares}; {took}"


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
    parser.add_argument("--known", type=Path, nargs="*", default=[], metavar="FILE", help="more runs that are made")
    arguments = parser.parse_args()
    for name in arguments.rows or declared:
        reason = refusal(declared[name])
        if reason is not None:
            print(f"{name}: not run: {reason}", file=sys.stderr)
    files = [*arguments.known, arguments.out]
    jobs = [job for job in jobs_of(arguments) if missing(job, files)]
    minutes = arguments.minutes * len(jobs)
    print(f"{len(jobs)} runs missing, {minutes:.0f} minutes of training, and some seconds each besides", flush=True)
    if arguments.dry_run:
        for job in jobs:
            print(f"{job.program} {job.row}, seed {job.seed}")
        return 0
    failed = run_jobs(
        jobs,
        perform,
        lambda job: missing(job, files),
        line_of,
        arguments.out,
        arguments.jobs,
        arguments.budget_minutes,
        jobs_per_process=_JOBS_PER_PROCESS,
    )
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
