"""Every solver on every committed program at equal budgets of processor time, by as many processes as wanted.

    python -m benchmarks.solvers.measure [--seconds 10 60 600] [--solvers NAME ...] [--workloads NAME|CLASS ...] [--seeds N]
        [--jobs N] [--minutes M] [--order seconds seed program solver] [--out FILE] [--known FILE ...]
        [--objective robust] [--machine LABEL] [--keep-old] [--dry-run]
    python -m benchmarks.solvers.measure --merge FILE ... [--out FILE]

Runs what FILE (docs/results/solvers.jsonl) lacks and adds it line by line, so the command may be stopped and given
again at any time, and given several times at once for different solvers or workloads. Runs in `--known` files are not
made again either; after `--minutes` no more are begun. A run counts for its program, its
cycle table and the solver's code as they are now: a change of any makes it run again (`--keep-old`: not of the code). A
solver that came to its end before its budget is not run with a larger one. `--workloads` takes names, splits (train,
validation, heldout, control) and `contended` (the bound leaves 1 % below tuned production), in that order; `--order`
says by what the list of runs is sorted. Every run has one thread, and what is compiled beforehand does not count.

Then: python -m benchmarks.solvers.page
"""

import argparse
import sys
import time
from pathlib import Path
from typing import NamedTuple

from ..common.job_pool import one_thread, run_jobs, telling

if __name__ == "__main__":
    one_thread()

from mallocmuzero.env import workloads
from mallocmuzero.env.physics.objective import make_judge, resolve
from mallocmuzero.env.workloads.bounds import judged_by
from mallocmuzero.solvers.common.task import PROCESSOR, Budget
from mallocmuzero.solvers.solve import SOLVERS, solve
from mallocmuzero.version import VERSION

from .records import RESULTS, SEEDLESS, Key, Record, code_of, is_current, key_for, lookup, read, write_sorted
from .references import is_contended, programs_of

_ORDERS = ("seconds", "seed", "program", "solver")


class Job(NamedTuple):
    """One run."""

    program: str
    solver: str
    objective: str | None
    seconds: float
    seed: int
    machine: str


@telling
def perform(job: Job) -> Record:
    """Runs a job in this process; returns the record."""
    try:
        program = workloads.load(job.program)
        objective = resolve(program, job.objective)
        begin = time.perf_counter()
        budget = Budget(job.seconds, clock=PROCESSOR)
        solution = solve(program, job.solver, objective=objective, budget=budget, seed=job.seed)
        judge = make_judge(program, objective)
        production_s = judge.production_s
        return {
            "program": program.name,
            "program_sha256": program.sha256[:12],
            "judged_by": judged_by(judge),
            "objective": objective,
            "solver": job.solver,
            "budget_s": job.seconds,
            "seed": job.seed,
            "code": code_of(job.solver),
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
            sys.modules["jax"].clear_caches()  # code for this program's shapes is of no more use


def jobs_of(arguments: argparse.Namespace) -> list[Job]:
    """Returns all runs that are asked for, in order."""
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
    program = workloads.load(job.program)
    found = lookup(known, key_for(program, job.solver, job.objective, job.seconds, job.seed))
    return found is None or not (keep_old or is_current(found))


def line_of(job: Job, record: Record) -> str:
    """Returns a line about a run that has ended."""
    share = f"{100 * record['ratio']:.3f} %" if record["ratio"] else f"{record['latency_us']:.3f} us"
    note = ", ended" if record["ended"] else ""
    took = f"{record['seconds']:.1f} s ({record['wall_s']:.1f} s wall)"
    return f"{job.program} {job.solver} {job.seconds:g} s, seed {job.seed}: {share}, {took}{note}"


def main() -> int:
    """Runs, or merges."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="FILE")
    parser.add_argument("--seconds", type=float, nargs="+", default=[10.0, 60.0, 600.0])
    parser.add_argument("--solvers", nargs="+", default=list(SOLVERS), choices=list(SOLVERS), metavar="NAME")
    parser.add_argument("--workloads", nargs="+", default=["contended", *workloads.SPLITS], metavar="NAME")
    parser.add_argument("--objective", help="robust (the default where it can be), msa or cycles")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="processes, one core each")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no run after so many")
    parser.add_argument("--known", type=Path, nargs="*", default=[], metavar="FILE", help="more runs that are made")
    parser.add_argument("--order", nargs="+", default=list(_ORDERS), choices=_ORDERS)
    parser.add_argument("--machine", default="a", metavar="LABEL")
    parser.add_argument("--keep-old", action="store_true", help="runs of a solver's earlier code count")
    parser.add_argument("--dry-run", action="store_true", help="only say what is missing")
    parser.add_argument("--merge", type=Path, nargs="+", metavar="FILE", help="add the runs of these files, and end")
    arguments = parser.parse_args()
    if arguments.merge:
        found = read([arguments.out, *arguments.merge])
        write_sorted(arguments.out, found)
        print(f"{arguments.out}: {len(found)} runs")
        return 0
    files = [*arguments.known, arguments.out]
    known = read(files)
    jobs = [job for job in jobs_of(arguments) if missing(job, known, arguments.keep_old)]
    seconds = sum(job.seconds for job in jobs)
    print(f"{len(jobs)} runs missing, {seconds / 3600:.1f} hours of processor time at most", flush=True)
    if arguments.dry_run:
        return 0
    failed = run_jobs(
        jobs,
        perform,
        lambda job: missing(job, read(files), arguments.keep_old),  # others may have added some
        line_of,
        arguments.out,
        arguments.jobs,
        arguments.minutes,
    )
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
