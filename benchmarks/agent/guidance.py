"""Measures the worth of the policy on held-out programs with a share of their fast memory, beside other solvers.

    python -m benchmarks.agent.guidance [--share 0.5] [--seconds 1 5] [--seeds 3] [--programs NAME|SPLIT ...]
        [--policy FILE] [--solvers NAME ...] [--jobs N] [--budget-minutes T] [--out FILE] [--machine LABEL] [--dry-run]

Production mappings leave little headroom. With less fast memory a program is another problem
(`actors/self_play/resize.py`): its production mapping is that of XLA's algorithm, and the headroom is larger. Each
problem is solved by `guided` with the policy, by the same solver without it, and by `--solvers`, with equal budgets of
processor time; the policy has been trained on no program of the split. Makes the runs that FILE
(docs/results/guidance.jsonl) lacks and appends each, so the command may be stopped and repeated.

A record has the keys of `records.py`, and `share`; the mode of another solver is its name.

Then: python -m benchmarks.agent.page
"""

import argparse
import sys
import time
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from ..common.job_pool import add_arguments, one_thread, returning_traceback, run_missing

if __name__ == "__main__":
    one_thread()

from mallocmuzero.actors.self_play.resize import resize_fast_memory
from mallocmuzero.env import workloads
from mallocmuzero.env.physics.objective import make_judge
from mallocmuzero.env.program.program import Program
from mallocmuzero.solvers.solve import SOLVERS
from mallocmuzero.version import VERSION

from ..common.json_lines import Record, keyed_by, read_runs
from ..solvers.references import programs_of
from .guidance_table import RESULTS
from .records import HELD_OUT, UNGUIDED, made_by
from .solving import solved

_JOBS_PER_PROCESS = 20

key_of = keyed_by("mode", "program", "program_sha256", "share", "budget_s", "seed", "versions", "policy_sha256")


class Job(NamedTuple):
    """One run; `policy` is None for the shipped one."""

    mode: str
    program: str
    share: float
    seconds: float
    seed: int
    policy: str | None
    machine: str

    def __str__(self) -> str:
        """Returns the name of the run for people."""
        name = {HELD_OUT: "with policy", UNGUIDED: "without"}.get(self.mode, self.mode)
        return f"{self.program}@{self.share:g} {self.seconds:g} s {name}, seed {self.seed}"

    @property
    def identity(self) -> Record:
        """The fields that make the key of its record."""
        return {
            "mode": self.mode,
            "program": self.program,
            "share": self.share,
            "program_sha256": _problem(self.program, self.share)[0].sha256[:12],
            "budget_s": self.seconds,
            "seed": self.seed,
            **made_by(self.mode, self.policy),
        }


@returning_traceback
def perform(job: Job) -> Record:
    """Runs a job in this process; returns the record."""
    program, production_s = _problem(job.program, job.share)
    identity = job.identity  # of the policy now; its file may be rewritten meanwhile
    begin = time.perf_counter()
    solution = solved(program, job.mode, job.policy, job.seconds, job.seed)
    return {
        **identity,
        "evaluations": solution.evaluations,
        "ratio": round(solution.judged_s / production_s, 8),
        "wall_s": round(time.perf_counter() - begin, 2),
        "machine": job.machine,
        "version": VERSION,
    }


@cache
def _problem(name: str, share: float) -> tuple[Program, float]:
    """Returns a program with a share of its fast memory, and the seconds of its mapping by XLA's algorithm."""
    program = resize_fast_memory(workloads.load(name), share)
    production_s = make_judge(program).production_s
    if not production_s:
        raise ValueError(f"{program.name} has no mapping to be measured against")
    return program, production_s


def jobs_of(arguments: argparse.Namespace, names: Iterable[str]) -> list[Job]:
    """Returns all runs that the options ask for: all programs by one seed before the next, short budgets first."""
    return [
        Job(mode, name, arguments.share, seconds, seed, arguments.policy, arguments.machine)
        for seed in range(arguments.seeds)
        for seconds in arguments.seconds
        for name in names
        for mode in (HELD_OUT, UNGUIDED, *arguments.solvers)
    ]


def outcome_of(job: Job, record: Record) -> str:
    """Returns the outcome of a run in one line."""
    return f"{100 * record['ratio']:.3f} %"


def main() -> int:
    """Runs what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=0.5, help="of the fast memory that is left")
    parser.add_argument("--seconds", type=float, nargs="+", default=[1.0, 5.0])
    parser.add_argument("--programs", nargs="+", default=["heldout"], metavar="NAME", help="names, splits")
    parser.add_argument("--solvers", nargs="+", default=[], choices=SOLVERS, metavar="NAME", help="others as well")
    parser.add_argument("--policy", metavar="RUN_DIR|FILE", help="by default the shipped one")
    parser.add_argument("--seeds", type=int, default=3)
    add_arguments(parser, RESULTS)
    arguments = parser.parse_args()
    return run_missing(
        jobs_of(arguments, programs_of(arguments.programs, lambda _: False)),
        perform,
        lambda job, known: key_of(job.identity) not in known,
        lambda: dict(read_runs([arguments.out], key_of)),
        outcome_of,
        arguments=arguments,
        seconds=lambda job: job.seconds,
        jobs_per_process=_JOBS_PER_PROCESS,
    )


if __name__ == "__main__":
    sys.exit(main())
