"""Every solver on every committed program at equal budgets of processor time, by as many processes as wanted.

    python benchmarks/solvers.py [--seconds 10 60 600] [--solvers NAME ...] [--workloads NAME|CLASS ...] [--seeds N]
        [--jobs N] [--minutes M] [--order seconds seed program solver] [--out FILE] [--known FILE ...]
        [--objective robust] [--machine LABEL] [--keep-old] [--dry-run]
    python benchmarks/solvers.py --merge FILE ... [--out FILE]

Runs what FILE (docs/results/solvers.jsonl) lacks and adds it line by line, so the command may be stopped and given
again at any time, and given several times at once for different solvers or workloads. Runs in `--known` files are not
made again either; after `--minutes` no more are begun. A run counts for its program, its
cycle table and the solver's code as they are now: a change of any makes it run again (`--keep-old`: not of the code). A
solver that came to its end before its budget is not run with a larger one. `--workloads` takes names, splits (train,
validation, heldout, control) and `contended` (the bound leaves 1 % below tuned production), in that order; `--order`
says by what the list of runs is sorted. Every run has one thread, and what is compiled beforehand does not count.

Then: python benchmarks/solver_page.py
"""

import argparse
import multiprocessing
import os
import signal
import sys
import time
import traceback
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import NamedTuple

# One thread each, set before any library reads it; processes that are started inherit it.
if __name__ == "__main__":
    for _name in ("OMP", "OPENBLAS", "MKL", "NUMBA", "VECLIB_MAXIMUM", "NUMEXPR"):
        os.environ[f"{_name}_NUM_THREADS"] = "1"
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

from mallocmuzero.actors.solvers.solve import SOLVERS, solve
from mallocmuzero.actors.solvers.task import PROCESSOR, Budget
from mallocmuzero.env import workloads
from mallocmuzero.env.cache import keep_compiled_code_by_source
from mallocmuzero.env.objective import make_judge, resolve
from mallocmuzero.env.workloads.bounds import judged_by
from mallocmuzero.version import VERSION
from solver_records import (
    RESULTS,
    SEEDLESS,
    Key,
    Record,
    append,
    code_of,
    is_current,
    key_for,
    lookup,
    read,
    write_sorted,
)
from solver_references import is_contended

_ORDERS = ("seconds", "seed", "program", "solver")


class Job(NamedTuple):
    """One run."""

    program: str
    solver: str
    objective: str | None
    seconds: float
    seed: int
    machine: str


def perform(job: Job) -> Record | str:
    """Runs a job in this process; returns the record, or what went wrong."""
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
    except Exception:  # noqa: BLE001 - told to the caller; other runs go on
        return traceback.format_exc()
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
    names = programs_of(arguments.workloads)
    jobs = [
        Job(name, solver, arguments.objective, seconds, seed, arguments.machine)
        for name in names
        for solver in arguments.solvers
        for seconds in arguments.seconds
        for seed in range(1 if solver in SEEDLESS else arguments.seeds)
    ]
    return sorted(jobs, key=lambda job: tuple(position[what](job) for what in arguments.order))


def programs_of(wanted: list[str]) -> list[str]:
    """Returns names of programs: those given, and those of the splits and classes given."""
    found: dict[str, None] = {}
    for what in wanted:
        if what in workloads.SPLITS:
            members = [name for name in workloads.names() if workloads.split(name) == what]
        elif what == "contended":
            members = [name for name in workloads.names() if is_contended(workloads.load(name))]
        else:
            members = [workloads.load(what).name]
        found.update(dict.fromkeys(members))
    return list(found)


def missing(job: Job, known: dict[Key, Record], keep_old: bool) -> bool:
    """Returns whether a job has to run."""
    program = workloads.load(job.program)
    found = lookup(known, key_for(program, job.solver, job.objective, job.seconds, job.seed))
    return found is None or not (keep_old or is_current(found))


def run_all(jobs: list[Job], arguments: argparse.Namespace) -> int:
    """Runs jobs, each if it is still missing when its turn comes; returns how many failed."""
    context = multiprocessing.get_context("spawn")
    waiting, failed = list(jobs), 0
    until = time.monotonic() + 60 * arguments.minutes
    running: dict[Future[Record | str], Job] = {}
    pool = ProcessPoolExecutor(arguments.jobs, mp_context=context, initializer=_begin_worker)
    try:
        while waiting or running:
            known = read([*arguments.known, arguments.out])  # others may have added some
            while waiting and len(running) < arguments.jobs and time.monotonic() < until:
                job = waiting.pop(0)
                if missing(job, known, arguments.keep_old):
                    running[pool.submit(perform, job)] = job
            if not running:
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                job, outcome = running.pop(future), future.result()
                name = f"{job.program} {job.solver} {job.seconds:g} s, seed {job.seed}"
                if isinstance(outcome, str):
                    failed += 1
                    print(f"{name}: failed\n{outcome}", file=sys.stderr, flush=True)
                else:
                    append(arguments.out, outcome)
                    share = f"{100 * outcome['ratio']:.3f} %" if outcome["ratio"] else f"{outcome['latency_us']:.3f} us"
                    note = ", ended" if outcome["ended"] else ""
                    took = f"{outcome['seconds']:.1f} s ({outcome['wall_s']:.1f} s wall)"
                    print(f"{len(waiting)} left. {name}: {share}, {took}{note}", flush=True)
    except (KeyboardInterrupt, BrokenProcessPool) as error:
        for process in multiprocessing.active_children():
            process.terminate()
        pool.shutdown(wait=False, cancel_futures=True)
        if isinstance(error, BrokenProcessPool):
            raise SystemExit(
                "a run took its process down (out of memory?); the same command goes on from here"
            ) from error
        raise SystemExit("stopped; the same command goes on from here") from None
    pool.shutdown()
    return failed


def _begin_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends its workers
    keep_compiled_code_by_source()


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
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    known = read([*arguments.known, arguments.out])
    jobs = [job for job in jobs_of(arguments) if missing(job, known, arguments.keep_old)]
    seconds = sum(job.seconds for job in jobs)
    print(f"{len(jobs)} runs missing, {seconds / 3600:.1f} hours of processor time at most", flush=True)
    return 0 if arguments.dry_run else int(run_all(jobs, arguments) > 0)


if __name__ == "__main__":
    sys.exit(main())
