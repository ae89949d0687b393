"""Pool of jobs: runs, each in its own process and recorded as it ends, so that a benchmark may be resumed.

A benchmark lists its jobs and says which are missing; `run_missing` does the rest. A job is printed by `str`, so job
types define `__str__`.
"""

import argparse
import functools
import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import TypeVar

from .json_lines import Key, Record, append

J = TypeVar("J")
Runs = dict[Key, Record]


def one_thread() -> None:
    """Gives numerical libraries one thread each, in this process and those it starts.

    Has no effect on a library that has been imported before.
    """
    for name in ("OMP", "OPENBLAS", "MKL", "NUMBA", "VECLIB_MAXIMUM", "NUMEXPR"):
        os.environ[f"{name}_NUM_THREADS"] = "1"
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"


def returning_traceback(perform: Callable[[J], Record]) -> Callable[[J], Record | str]:
    """Wraps `perform` for `run_jobs`: a failure returns its traceback instead of a record, and the other jobs go on."""

    @functools.wraps(perform)
    def guarded(job: J) -> Record | str:
        try:
            return perform(job)
        except Exception:  # noqa: BLE001 - reported by run_jobs
            return traceback.format_exc()

    return guarded


def add_arguments(parser: argparse.ArgumentParser, out: Path, minutes: str = "--budget-minutes") -> None:
    """Adds the options that `run_missing` reads.

    Args:
      parser: gets the options.
      out: the default file of records.
      minutes: name of the option that bounds the time.
    """
    parser.add_argument("--jobs", type=int, default=1, help="processes, one core each")
    parser.add_argument(
        minutes, dest="budget_minutes", type=float, default=float("inf"), metavar="M", help="begin no run after so many"
    )
    parser.add_argument("--out", type=Path, default=out, metavar="FILE")
    parser.add_argument("--machine", default="a", metavar="LABEL")
    parser.add_argument("--dry-run", action="store_true", help="only print the runs that are missing")


def run_missing(
    jobs: Sequence[J],
    perform: Callable[[J], Record | str],
    missing: Callable[[J, Runs], bool],
    read: Callable[[], Runs],
    say: Callable[[J, Record], str],
    *,
    arguments: argparse.Namespace,
    seconds: Callable[[J], float],
    jobs_per_process: int | None = None,
) -> int:
    """Runs the jobs that have no record yet, or prints them.

    Args:
      jobs: all jobs that are asked for, in order.
      perform: runs one, see `run_jobs`.
      missing: whether a job has to run, given the existing records.
      read: returns the existing records.
      say: returns the outcome of a job in one line.
      arguments: the options of `add_arguments`.
      seconds: processor time of a job.
      jobs_per_process: see `run_jobs`.

    Returns:
      the exit status of the benchmark.
    """
    known = read()
    jobs = [job for job in jobs if missing(job, known)]
    print(f"{len(jobs)} runs missing, {sum(map(seconds, jobs)) / 3600:.1f} hours of processor time", flush=True)
    if arguments.dry_run:
        for job in jobs:
            print(job)
        return 0
    failed = run_jobs(
        jobs,
        perform,
        lambda job: missing(job, read()),  # another process may have added it meanwhile
        say,
        arguments.out,
        processes=arguments.jobs,
        minutes=arguments.budget_minutes,
        jobs_per_process=jobs_per_process,
    )
    return int(failed > 0)


def run_jobs(
    jobs: Sequence[J],
    perform: Callable[[J], Record | str],
    missing: Callable[[J], bool],
    say: Callable[[J, Record], str],
    out: Path,
    *,
    processes: int = 1,
    minutes: float = float("inf"),
    jobs_per_process: int | None = None,
) -> int:
    """Runs jobs in order and appends their records to a file.

    Args:
      jobs: the jobs.
      perform: runs one in a process of its own; returns its record, or the traceback of a failure.
      missing: whether a job still has to run when its turn comes.
      say: returns the outcome of a job in one line.
      out: file of records.
      processes: number of jobs that run at once.
      minutes: no job begins after so many.
      jobs_per_process: a process is replaced after so many; None for never.

    Returns:
      the number of failures.

    Raises:
      SystemExit: stopped by Ctrl-C or SIGTERM, or a process died.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    waiting, failed = list(jobs), 0
    until = time.monotonic() + 60 * minutes
    running: dict[Future[Record | str], J] = {}
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, context, _begin_worker, max_tasks_per_child=jobs_per_process)
    try:
        while waiting or running:
            while waiting and len(running) < processes and time.monotonic() < until:
                job = waiting.pop(0)
                if missing(job):
                    running[pool.submit(perform, job)] = job
            if not running:
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                job, outcome = running.pop(future), future.result()
                if isinstance(outcome, str):
                    failed += 1
                    print(f"{job}: failed\n{outcome}", file=sys.stderr, flush=True)
                else:
                    append(out, outcome)
                    print(f"{len(waiting)} left. {job}: {say(job, outcome)}", flush=True)
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
    from mallocmuzero.env.compiled.cache import keep_compiled_code_by_source

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends its workers
    keep_compiled_code_by_source()
