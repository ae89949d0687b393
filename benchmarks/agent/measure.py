"""Measures the agent for its targets: trained per program, and on held-out programs with the shipped policy.

    python -m benchmarks.agent.measure --mode per-program [--minutes 30] [--programs NAME|SPLIT|contended ...]
        [--seeds N]
    python -m benchmarks.agent.measure --mode held-out [--seconds 1 10 60] [--programs ...] [--seeds N]
        [--policy RUN_DIR|FILE]
    python -m benchmarks.agent.measure --mode unguided [--seconds 1 10 60] [--programs ...] [--seeds N]
        [--jobs N] [--budget-minutes T] [--out FILE] [--machine LABEL] [--dry-run]

`per-program` trains an agent on each program from nothing, for a budget of processor time on one thread
(`common/timed_training.py`). `held-out` gives each program to `solve --solver guided` with a budget of processor time;
its policy has been trained on no program of the split. `unguided` is the same solver without a policy. Makes the runs
that FILE (docs/results/agent.jsonl) lacks for the present versions and policy and appends each, so the command may be
stopped and repeated. Other solvers' runs come from docs/results/solvers.jsonl and, for budgets that it lacks, from

    python -m benchmarks.solvers.measure --seconds 1 60 --solvers anneal cem order-search egrl greedy milp \\
        --workloads heldout --known docs/results/solvers.jsonl --out docs/results/agent-solvers.jsonl

Then: python -m benchmarks.agent.page
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ..common.job_pool import add_arguments, one_thread, returning_traceback, run_missing

if __name__ == "__main__":
    one_thread()

from mallocmuzero.env import workloads
from mallocmuzero.env.physics.objective import make_judge
from mallocmuzero.env.program.mapping import Mapping
from mallocmuzero.env.program.mapping_file import read_mapping, write_mapping
from mallocmuzero.env.program.program import Program
from mallocmuzero.env.verifier.verify import verify
from mallocmuzero.solvers.common.fill import gather
from mallocmuzero.version import VERSION

from ..ablations.records import judge_hash
from ..common.json_lines import Record
from ..common.timed_training import configure, train_timed
from ..solvers.references import programs_of, reference
from .page import DRAWN, MAPPING
from .records import (
    HELD_OUT,
    MODES,
    PER_PROGRAM,
    RESULTS,
    UNGUIDED,
    best_known,
    is_contended,
    key_of,
    made_by,
    read,
    settings_of,
)
from .solving import solved

_JOBS_PER_PROCESS = 20
_HELD_OUT = ["heldout", "control"]
_DEFAULT_PROGRAMS = {PER_PROGRAM: ["contended", "control"], HELD_OUT: _HELD_OUT, UNGUIDED: _HELD_OUT}


class Job(NamedTuple):
    """One run; `policy` is None for the shipped one."""

    mode: str
    program: str
    seconds: float
    seed: int
    policy: str | None
    machine: str

    def __str__(self) -> str:
        """Returns the name of the run for people."""
        return f"{self.mode} {self.program} {self.seconds:g} s, seed {self.seed}"

    @property
    def identity(self) -> Record:
        """The fields that make the key of its record."""
        program = workloads.load(self.program)
        return {
            "mode": self.mode,
            "program": program.name,
            "program_sha256": program.sha256[:12],
            "judged_by": judge_hash(program),
            "budget_s": self.seconds,
            "seed": self.seed,
            **made_by(self.mode, self.policy),
        }


@returning_traceback
def perform(job: Job) -> Record:
    """Runs a job in this process; returns the record."""
    program = workloads.load(job.program)
    make = _train if job.mode == PER_PROGRAM else _solve
    identity = job.identity  # of the policy now; its file may be rewritten meanwhile
    begin = time.perf_counter()
    mapping, figures = make(program, job)
    judge = make_judge(program)
    if not judge.production_s:
        raise ValueError(f"{program.name} has no production mapping to be measured against")
    if verify(program, program.target, mapping):
        raise ValueError(f"{program.name}: the mapping does not verify")
    if program.name == DRAWN:
        keep_better(program, mapping, MAPPING)
    return {
        **identity,
        **figures,
        "ratio": round(judge.judge(mapping) / judge.production_s, 8),
        "wall_s": round(time.perf_counter() - begin, 2),
        "machine": job.machine,
        "version": VERSION,
    }


def _train(program: Program, job: Job) -> tuple[Mapping, dict[str, Any]]:
    trained = train_timed(configure(settings_of(job.seconds), program.name, job.seed), job.seconds)
    mapping = gather(make_judge(program), trained.mapping)
    return mapping, {**trained.as_json(), "seconds": round(trained.spent_s, 2), "ended": False}


def _solve(program: Program, job: Job) -> tuple[Mapping, dict[str, Any]]:
    solution = solved(program, job.mode, job.policy, job.seconds, job.seed)
    figures = {"evaluations": solution.evaluations, "seconds": round(solution.seconds, 2), "ended": solution.ended}
    return solution.mapping, figures


def keep_better(program: Program, mapping: Mapping, path: Path) -> None:
    """Writes a mapping, unless the file holds a better one of the same program."""
    judge = make_judge(program)
    if path.exists() and judge.judge(read_mapping(path, program)) <= judge.judge(mapping):
        return
    write_mapping(mapping, program, path)


def jobs_of(arguments: argparse.Namespace, contended: Callable[[str], bool]) -> list[Job]:
    """Returns all runs that the options ask for: short budgets first, then all programs by one seed before the next."""
    names = programs_of(arguments.programs or _DEFAULT_PROGRAMS[arguments.mode], contended)
    trained = arguments.mode == PER_PROGRAM
    return [
        Job(arguments.mode, name, seconds, seed, arguments.policy, arguments.machine)
        for seconds in ([60 * arguments.minutes] if trained else arguments.seconds)
        for seed in range(arguments.seeds)
        for name in names
    ]


def outcome_of(job: Job, record: Record) -> str:
    """Returns the outcome of a run in one line."""
    return f"{100 * record['ratio']:.3f} %, {record['seconds']:.1f} s ({record['wall_s']:.1f} s wall)"


def _contended(name: str) -> bool:
    entry = reference(workloads.load(name))
    return is_contended(entry, best_known([entry])[name])


def main() -> int:
    """Runs what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", required=True, choices=MODES)
    parser.add_argument("--minutes", type=float, default=30.0, help="of training per program (per-program)")
    parser.add_argument("--seconds", type=float, nargs="+", default=[1.0, 10.0, 60.0], help="of solving (held-out)")
    parser.add_argument("--programs", nargs="+", metavar="NAME", help="names, splits, `contended`")
    parser.add_argument("--policy", metavar="RUN_DIR|FILE", help="by default the shipped one (held-out)")
    parser.add_argument("--seeds", type=int, default=1)
    add_arguments(parser, RESULTS)
    arguments = parser.parse_args()
    return run_missing(
        jobs_of(arguments, _contended),
        perform,
        lambda job, known: key_of(job.identity) not in known,
        lambda: read([arguments.out]),
        outcome_of,
        arguments=arguments,
        seconds=lambda job: job.seconds,
        jobs_per_process=_JOBS_PER_PROCESS,
    )


if __name__ == "__main__":
    sys.exit(main())
