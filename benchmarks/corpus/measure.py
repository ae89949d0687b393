"""Measures size, pressure and room of every program of the corpus and the benchmark, into docs/results/corpus.jsonl.

    python -m benchmarks.corpus.measure [--seconds S] [--jobs N] [--budget-minutes M]

Room is what annealing finds below production under `msa` in some seconds of processor time. Each row is appended at
once: the command may be stopped and repeated, and measures what the present versions have no row of.
`python -m benchmarks.corpus.page` makes the page.
"""

import argparse
from dataclasses import dataclass

from ..common.job_pool import Runs, add_arguments, one_thread, returning_traceback, run_missing

if __name__ == "__main__":
    one_thread()

from mallocmuzero.env import workloads
from mallocmuzero.env.physics.cost import MSA, floor_latency
from mallocmuzero.env.physics.simulator import simulate
from mallocmuzero.env.program.live import live_pressure
from mallocmuzero.solvers.common.budget import PROCESSOR, Budget
from mallocmuzero.solvers.solve import solve

from ..common.json_lines import ROOT, Key, Record, keyed_by, read_runs
from ..common.versions import is_current, versions_of

RESULTS = ROOT / "docs" / "results" / "corpus.jsonl"
SOLVER = "anneal"
SECONDS = 2.0
key_of = keyed_by("program", "program_sha256", "seconds")


@dataclass(frozen=True)
class Job:
    """One program, searched for some seconds."""

    program: str
    seconds: float

    def __str__(self) -> str:
        return self.program


@returning_traceback
def perform(job: Job) -> Record:
    """Measures one program."""
    program = workloads.load(job.program)
    entry = workloads.workload(job.program)
    assert program.production is not None
    production = simulate(program, program.target, program.production, MSA).latency_s
    found = solve(program, SOLVER, objective=MSA, budget=Budget(job.seconds, None, PROCESSOR))
    return {
        "program": job.program,
        "program_sha256": program.sha256,
        "split": entry.split,
        "seconds": job.seconds,
        "accesses": program.num_accesses,
        "instructions": program.num_instructions,
        "loops": len(program.loop_trips),
        "pressure": live_pressure(program),
        "production_s": production,
        "found": found.judged_s / production,
        "floor": floor_latency(program, program.target, MSA) / production,
        "games": found.evaluations,
        "versions": versions_of(SOLVER),
    }


def read() -> Runs:
    """Returns the rows of the present versions, by key."""
    return {key: record for key, record in read_runs([RESULTS], key_of) if is_current(record)}


def _key(job: Job) -> Key:
    program = workloads.workload(job.program)
    return job.program, program.sha256, job.seconds


def main() -> int:
    """Measures the rows that the file lacks; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="processor time of each search")
    add_arguments(parser, RESULTS)
    arguments = parser.parse_args()
    jobs = [Job(name, arguments.seconds) for name in [*workloads.names(), *workloads.corpus_names()]]
    return run_missing(
        jobs,
        perform,
        lambda job, known: _key(job) not in known,
        read,
        lambda job, record: f"pressure {record['pressure']:.2f}, found {100 * record['found']:.1f} % of production",
        arguments=arguments,
        seconds=lambda job: job.seconds + 0.5,
    )


if __name__ == "__main__":
    raise SystemExit(main())
