"""What the policy is worth where much is left to win, and other solvers: held-out programs with a share of their fast
memory.

    python -m benchmarks.agent.guidance [--share 0.5] [--seconds 1 5] [--seeds 3] [--programs NAME|SPLIT ...]
        [--policy FILE] [--solvers NAME ...] [--jobs N] [--budget-minutes T] [--out FILE] [--machine LABEL] [--dry-run]

Production mappings of the benchmark are good, and little is left above them. With less fast memory a program is another
problem (`actors/self_play/curriculum.py`), whose mapping by XLA's algorithm is as good as that comes, and more can be
won. Each is solved by `solve --solver muzero` with the policy, by the same solver without it and by `--solvers` besides, with as
much processor time; the policy has been trained on no program of the split. What FILE (docs/results/guidance.jsonl)
lacks is run and added line by line, so the command may be stopped and given again at any time.

A run (`json_lines.py`) has the keys of `agent_records.py`, and `share`; the mode of another solver is its name.

Then: python -m benchmarks.agent.page
"""

import argparse
import sys
import time
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from ..common.job_pool import add_arguments, one_thread, run_jobs, telling

if __name__ == "__main__":
    one_thread()

from mallocmuzero.actors.self_play.curriculum import resized
from mallocmuzero.env import workloads
from mallocmuzero.env.physics.objective import make_judge
from mallocmuzero.env.program.program import Program
from mallocmuzero.solvers.solve import SOLVERS
from mallocmuzero.version import VERSION

from ..common.json_lines import Record, read_runs
from ..solvers.references import programs_of
from .guidance_table import RESULTS
from .records import HELD_OUT, UNGUIDED
from .solving import solved, versions

_JOBS_PER_PROCESS = 20

Key = tuple[str, str, str, float, float, int, str, str | None]


class Job(NamedTuple):
    """One run; `policy` is None for the shipped one."""

    mode: str
    program: str
    share: float
    seconds: float
    seed: int
    policy: str | None
    machine: str


@telling
def perform(job: Job) -> Record:
    """Runs a job in this process; returns the record."""
    program, production_s = _problem(job.program, job.share)
    code, policy = versions(job.mode, job.policy, job.seconds)
    begin = time.perf_counter()
    solution = solved(program, job.mode, job.policy, job.seconds, job.seed)
    return {
        "mode": job.mode,
        "program": job.program,
        "share": job.share,
        "program_sha256": program.sha256[:12],
        "budget_s": job.seconds,
        "seed": job.seed,
        "code": code,
        "policy_sha256": policy,
        "evaluations": solution.evaluations,
        "ratio": round(solution.judged_s / production_s, 8),
        "wall_s": round(time.perf_counter() - begin, 2),
        "machine": job.machine,
        "version": VERSION,
    }


@cache
def _problem(name: str, share: float) -> tuple[Program, float]:
    """Returns a program with a share of its fast memory, and what XLA's algorithm comes to there."""
    program = resized(workloads.load(name), share)
    production_s = make_judge(program).production_s
    if not production_s:
        raise ValueError(f"{program.name} has no mapping to be measured against")
    return program, production_s


def _key_of(record: Record) -> Key:
    return (
        record["mode"],
        record["program"],
        record["program_sha256"],
        float(record["share"]),
        float(record["budget_s"]),
        int(record["seed"]),
        record["code"],
        record["policy_sha256"],
    )


def _key_for(job: Job) -> Key:
    sha256 = _problem(job.program, job.share)[0].sha256[:12]
    return (
        job.mode,
        job.program,
        sha256,
        job.share,
        job.seconds,
        job.seed,
        *versions(job.mode, job.policy, job.seconds),
    )


def jobs_of(arguments: argparse.Namespace, names: Iterable[str]) -> list[Job]:
    """Returns all runs that are asked for: all programs by one seed before the next, short budgets first."""
    return [
        Job(mode, name, arguments.share, seconds, seed, arguments.policy, arguments.machine)
        for seed in range(arguments.seeds)
        for seconds in arguments.seconds
        for name in names
        for mode in (HELD_OUT, UNGUIDED, *arguments.solvers)
    ]


def line_of(job: Job, record: Record) -> str:
    """Returns a line about a run that has ended."""
    what = {HELD_OUT: "with policy", UNGUIDED: "without"}.get(job.mode, job.mode)
    return f"{job.program}@{job.share:g} {job.seconds:g} s {what}, seed {job.seed}: {100 * record['ratio']:.3f} %"


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

    def missing(job: Job) -> bool:
        return _key_for(job) not in dict(read_runs([arguments.out], _key_of))

    jobs = [job for job in jobs_of(arguments, programs_of(arguments.programs, lambda _: False)) if missing(job)]
    minutes = sum(job.seconds for job in jobs) / 60
    print(f"{len(jobs)} runs missing, {minutes:.0f} minutes of processor time", flush=True)
    if arguments.dry_run:
        return 0
    processes, until = arguments.jobs, arguments.budget_minutes
    failed = run_jobs(jobs, perform, missing, line_of, arguments.out, processes, until, _JOBS_PER_PROCESS)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
