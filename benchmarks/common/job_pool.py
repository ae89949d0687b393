"""Runs in processes of their own, each written down as it ends: what the resumable benchmarks share."""

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

from .json_lines import Record, append

J = TypeVar("J")


def one_thread() -> None:
    """Gives numerical libraries one thread each, here and in processes that are started. To be called before any
    library reads it."""
    for name in ("OMP", "OPENBLAS", "MKL", "NUMBA", "VECLIB_MAXIMUM", "NUMEXPR"):
        os.environ[f"{name}_NUM_THREADS"] = "1"
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"


def telling(perform: Callable[[J], Record]) -> Callable[[J], Record | str]:
    """Returns `perform` for `run_jobs`: what goes wrong is told in place of a record, so that other runs go on."""

    @functools.wraps(perform)
    def told(job: J) -> Record | str:
        try:
            return perform(job)
        except Exception:  # noqa: BLE001 - told to the caller
            return traceback.format_exc()

    return told


def add_arguments(parser: argparse.ArgumentParser, out: Path) -> None:
    """Adds the arguments that say where, and for how long, jobs are run."""
    parser.add_argument("--jobs", type=int, default=1, help="processes, one core each")
    parser.add_argument("--budget-minutes", type=float, default=float("inf"), help="begin no run after so many")
    parser.add_argument("--out", type=Path, default=out, metavar="FILE")
    parser.add_argument("--machine", default="a", metavar="LABEL")
    parser.add_argument("--dry-run", action="store_true", help="only say what is missing")


def run_jobs(
    jobs: Sequence[J],
    perform: Callable[[J], Record | str],
    missing: Callable[[J], bool],
    say: Callable[[J, Record], str],
    out: Path,
    processes: int = 1,
    minutes: float = float("inf"),
    jobs_per_process: int | None = None,
) -> int:
    """Runs jobs in order and adds their records to a file.

    Args:
      jobs: what to run.
      perform: runs one in a process of its own; returns its record, or what went wrong.
      missing: whether a job has to run when its turn comes; others may have run it.
      say: one line about a run that has ended, its job's name first.
      out: file of records.
      processes: run at once.
      minutes: no job is begun after so many.
      jobs_per_process: a process is replaced after so many; None for never.

    Returns:
      how many failed.

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
                    print(f"{len(waiting)} left. {say(job, outcome)}", flush=True)
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
    from mallocmuzero.env.storage.cache import keep_compiled_code_by_source

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends its workers
    keep_compiled_code_by_source()
