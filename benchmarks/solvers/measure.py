"""Runs every solver on every committed program at equal budgets of processor time, into docs/results/solvers.jsonl.

    python -m benchmarks.solvers.measure [--seconds 10 60 600] [--solvers NAME ...] [--workloads NAME|SPLIT ...]
        [--seeds N] [--jobs N] [--minutes M] [--order seconds seed program solver] [--out FILE] [--known FILE ...]
        [--objective robust] [--machine LABEL] [--keep-old] [--dry-run]
    python -m benchmarks.solvers.measure --merge FILE ... [--out FILE]

Makes the runs that FILE lacks and appends each, so the command may be stopped and repeated, and several may write one
file. Runs in `--known` files are not repeated either. A run counts for its program, cycle table and versions
(`common/versions.py`); `--keep-old` accepts earlier versions. A solver that ended before its budget is not run with a
larger one. `--workloads` takes names, splits (train, validation, heldout, control) and `contended` (the bound leaves
1 % below tuned production), in that order; `--order` sorts the list of runs. Each run has one thread, and compilation
done beforehand does not count.

Then: python -m benchmarks.solvers.page
"""

import argparse
import sys
import time
from pathlib import Path
from typing import NamedTuple

from ..common.job_pool import add_arguments, one_thread, returning_traceback, run_missing

if __name__ == "__main__":
    one_thread()

from mallocmuzero.env import workloads
from mallocmuzero.env.physics.objective import make_judge, resolve
from mallocmuzero.launch.run.guided import GUIDED, learned_solvers
from mallocmuzero.solvers.common.budget import PROCESSOR, Budget
from mallocmuzero.solvers.solve import SOLVERS, solve
from mallocmuzero.version import VERSION

from ..common.json_lines import Key, Record
from ..common.versions import is_current, versions_of
from .records import RESULTS, SEEDLESS, identity, key_of, lookup, read, write_sorted
from .references import is_contended, programs_of

# The default solver with the shipped policy, then all that need none. No mapping is packed anew at the end.
COMPARED = {GUIDED: learned_solvers()[GUIDED], **SOLVERS}
_ORDERS = ("seconds", "seed", "program", "solver")


class Job(NamedTuple):
    """One run."""

    program: str
    solver: str
    objective: str | None
    seconds: float
    seed: int
    machine: str

    def __str__(self) -> str:
        """Returns the name of the run for people."""
        return f"{self.program} {self.solver} {self.seconds:g} s, seed {self.seed}"

    @property
    def identity(self) -> Record:
        """The fields that make the key of its record."""
        return identity(workloads.load(self.program), self.solver, self.objective, self.seconds, self.seed)


@returning_traceback
def perform(job: Job) -> Record:
    """Runs a job in this process; returns the record."""
    try:
        program = workloads.load(job.program)
        objective = resolve(program, job.objective)
        begin = time.perf_counter()
        budget = Budget(job.seconds, clock=PROCESSOR)
        solution = solve(program, job.solver, objective=objective, budget=budget, seed=job.seed, solvers=COMPARED)
        production_s = make_judge(program, objective).production_s
        return {
            **job.identity,
            "versions": versions_of(job.solver),
            "latency_us": round(solution.judged_s * 1e6, 6),
            "ratio": None if not production_s else round(solution.judged_s / production_s, 8),
            "evaluations": solution.evaluations,
            "seconds": round(solution.seconds, 3),
            "wall_s": round(time.perf_counter() - begin, 3),
            "ended": solution.ended,
            "machine": job.machine,
            "version": VERSION,
        }
    finally:
        if "jax" in sys.modules:
            sys.modules["jax"].clear_caches()  # compiled for the shapes of this program alone


def jobs_of(arguments: argparse.Namespace) -> list[Job]:
    """Returns all runs that the options ask for, in order."""
    position = {
        "seconds": lambda job: job.seconds,
        "seed": lambda job: job.seed,
        "program": lambda job: names.index(job.program),
        "solver": lambda job: arguments.solvers.index(job.solver),
    }
    names = programs_of(arguments.workloads, lambda name: is_contended(workloads.load(name)))
    jobs = [
        Job(name, solver, arguments.objective, seconds, seed, arguments.machine)
        for name in names
        for solver in arguments.solvers
        for seconds in arguments.seconds
        for seed in range(1 if solver in SEEDLESS else arguments.seeds)
    ]
    return sorted(jobs, key=lambda job: tuple(position[what](job) for what in arguments.order))


def missing(job: Job, known: dict[Key, Record], keep_old: bool) -> bool:
    """Returns whether a job has to run."""
    found = lookup(known, key_of(job.identity))
    return found is None or not (keep_old or is_current(found))


def outcome_of(job: Job, record: Record) -> str:
    """Returns the outcome of a run in one line."""
    share = f"{100 * record['ratio']:.3f} %" if record["ratio"] else f"{record['latency_us']:.3f} us"
    note = ", ended" if record["ended"] else ""
    return f"{share}, {record['seconds']:.1f} s ({record['wall_s']:.1f} s wall){note}"


def main() -> int:
    """Runs what is missing, or merges files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, nargs="+", default=[10.0, 60.0, 600.0])
    parser.add_argument("--solvers", nargs="+", default=list(COMPARED), choices=list(COMPARED), metavar="NAME")
    parser.add_argument("--workloads", nargs="+", default=["contended", *workloads.SPLITS], metavar="NAME")
    parser.add_argument("--objective", help="robust (the default where there is a cycle table), msa or cycles")
    parser.add_argument("--seeds", type=int, default=1)
    add_arguments(parser, RESULTS, minutes="--minutes")
    parser.add_argument("--known", type=Path, nargs="*", default=[], metavar="FILE", help="more files of runs")
    parser.add_argument("--order", nargs="+", default=list(_ORDERS), choices=_ORDERS)
    parser.add_argument("--keep-old", action="store_true", help="runs of earlier versions count")
    parser.add_argument("--merge", type=Path, nargs="+", metavar="FILE", help="add the runs of these files, and end")
    arguments = parser.parse_args()
    if arguments.merge:
        found = read([arguments.out, *arguments.merge])
        write_sorted(arguments.out, found)
        print(f"{arguments.out}: {len(found)} runs")
        return 0
    return run_missing(
        jobs_of(arguments),
        perform,
        lambda job, known: missing(job, known, arguments.keep_old),
        lambda: read([*arguments.known, arguments.out]),
        outcome_of,
        arguments=arguments,
        seconds=lambda job: job.seconds,
    )


if __name__ == "__main__":
    sys.exit(main())
