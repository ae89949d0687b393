"""Trains on one program from nothing, with learning and without, and writes docs/results/one-program.jsonl.

    python -m benchmarks.learning.one_program [--programs NAME ...] [--objectives msa robust] [--seconds 240]
        [--seeds 1] [--follow] [--jobs N] [--budget-minutes T] [--out FILE] [--machine LABEL] [--dry-run]

A run trains on one program for some seconds of processor time on one core (`common/timed_training.py`). It begins with
the portfolio's rules and anneals nothing; with `--follow` its games go by the hints of production, and it begins with
production too. `frozen` is the same agent whose replay never has enough to learn from: fresh weights, and all of the
time for games. A run that is on record is not made again, so the command may be stopped and repeated.
`python -m benchmarks.learning.one_program_page` makes the table.
"""

import argparse
import sys
from typing import Any, NamedTuple

from ..common.job_pool import add_arguments, one_thread, returning_traceback, run_missing

if __name__ == "__main__":
    one_thread()

from mallocmuzero.actors.self_play.config import RESIDENCY

from ..common.json_lines import ROOT, Record, keyed_by, read_runs
from ..common.timed_training import configure, train_timed
from ..common.versions import TRAINING, versions_of

RESULTS = ROOT / "docs" / "results" / "one-program.jsonl"
LEARNING, FROZEN = "learning", "frozen"
ARMS = (LEARNING, FROZEN)
# Of the train split, with room, from 200 to 1,000 decisions.
PROGRAMS = (
    "dlrm-train-b2048",
    "switch-train-b4-s512",
    "whisper-tiny-train-b4",
    "graph-network-v5p",
    "dlrm-b2048",
    "resnet18-train-b64",
    "t5-small-train-b8",
    "unet-b2",
)
SECONDS = 240.0
# More segments than a run can play.
_NEVER = 1_000_000
_SETTINGS: dict[str, Any] = {"actor.decisions": RESIDENCY, "actor.games": 16, "replay.min_size": 500}
_WITHOUT_LEARNING = {"replay.capacity": _NEVER, "replay.min_size": _NEVER}
key_of = keyed_by("program", "objective", "arm", "seed", "seconds", "follow", "versions")


class Job(NamedTuple):
    """One run of `benchmarks.learning.one_program`."""

    program: str
    objective: str
    arm: str
    seed: int
    seconds: float
    follow: bool
    machine: str

    def __str__(self) -> str:
        """Returns the name of the run for people."""
        follow = ", follow" if self.follow else ""
        return f"{self.program} {self.objective} {self.arm}, {self.seconds:g} s, seed {self.seed}{follow}"

    def record(self) -> Record:
        """Returns the fields that tell this run from others."""
        return {**self._asdict(), "versions": versions_of(TRAINING)}


def settings_of(job: Job) -> dict[str, Any]:
    """Returns the settings of a run, over the defaults of its game."""
    settings = {**_SETTINGS, "actor.objective": job.objective, "actor.follow": job.follow}
    return settings if job.arm == LEARNING else {**settings, **_WITHOUT_LEARNING}


@returning_traceback
def perform(job: Job) -> Record:
    """Makes a run."""
    trained = train_timed(configure(settings_of(job), job.program, job.seed), job.seconds)
    return {**job.record(), **trained.as_json()}


def say(job: Job, record: Record) -> str:
    """Returns the outcome of a run in one line."""
    return (
        f"began with {100 * record['first']:.2f} %, best {100 * record['best']:.2f} %, policy"
        f" {100 * record['policy']:.2f} %, {record['moves']} moves, {record['updates']} updates"
    )


def main() -> int:
    """Makes the runs that are missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", nargs="+", default=list(PROGRAMS))
    parser.add_argument("--objectives", nargs="+", default=["msa", "robust"])
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--follow", action="store_true", help="games follow production")
    add_arguments(parser, RESULTS)
    arguments = parser.parse_args()
    jobs = [
        Job(program, objective, arm, seed, arguments.seconds, arguments.follow, arguments.machine)
        for seed in range(arguments.seeds)
        for objective in arguments.objectives
        for program in arguments.programs
        for arm in ARMS
    ]

    return run_missing(
        jobs,
        perform,
        lambda job, runs: key_of(job.record()) not in runs,
        lambda: dict(read_runs([arguments.out], key_of)),
        say,
        arguments=arguments,
        seconds=lambda job: job.seconds,
        jobs_per_process=4,
    )


if __name__ == "__main__":
    sys.exit(main())
