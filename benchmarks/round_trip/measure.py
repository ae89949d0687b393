"""The round trip of every contended v5e and v6e program: what a mapping promises, and what the real compiler confirms.

    python -m benchmarks.round_trip.measure --python PATH [--programs NAME ...] [--solver order-search]
        [--solve-seconds 60] [--translate-seconds 60] [--candidates 4] [--compile-minutes 15] [--minutes M] [--out FILE]

Runs what FILE (docs/results/round-trip.jsonl) lacks and adds it line by line, small programs first, so the command may
be stopped and given again at any time. A program is mapped by a solver, the mapping is translated, and the compiler is
asked about the best options of each kind; the best confirmed is kept, compiled to the end where that takes no longer
than the minutes allow. Seconds of solving and translating are of processor time, minutes are by the clock.

The flag grid is what results are compared with, so its settings are not among the candidates, though a candidate may
come to the same flags.

PATH: an interpreter with jax and libtpu, of the versions that the programs were captured with.

Then: python -m benchmarks.round_trip.page
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
from mallocmuzero.env.physics.objective import make_judge
from mallocmuzero.launch.confirmation_report import report
from mallocmuzero.roundtrip.compile import imposer
from mallocmuzero.roundtrip.confirm import candidates_of, confirm
from mallocmuzero.roundtrip.flag_grid import flags_us
from mallocmuzero.roundtrip.source import find_source, program_path
from mallocmuzero.roundtrip.translate import translate
from mallocmuzero.solvers.common.task import PROCESSOR, Budget
from mallocmuzero.solvers.solve import SOLVERS, solve
from mallocmuzero.version import VERSION

from ..common.json_lines import Record
from .records import RESULTS, key_of, programs, read


class Job(NamedTuple):
    """One program's round trip."""

    program: str
    python: str
    solver: str
    solve_s: float
    translate_s: float
    candidates: int
    compile_minutes: float


@telling
def perform(job: Job) -> Record:
    """Runs a job in this process; returns the record."""
    program = workloads.load(job.program)
    begin = time.perf_counter()
    solution = solve(program, job.solver, budget=Budget(job.solve_s, clock=PROCESSOR))
    judge = make_judge(program)
    translations = translate(judge, solution.mapping, job.translate_s, clock=time.process_time)
    source = find_source(program, program_path(job.program))
    until = time.monotonic() + 60.0 * job.compile_minutes
    with imposer(source, Path(job.python), time_limit_s=60.0 * job.compile_minutes, progress=_say) as compiler:
        confirmation = confirm(
            program,
            None,
            candidates_of(translations)[: job.candidates],
            compiler,
            time_left_s=lambda: until - time.monotonic(),
            progress=_say,
        )
        versions = compiler.versions()
    found = report(confirmation, solution.mapping)
    for tried in found["candidates"]:
        tried["option_bytes"] = sum(len(text) for text in tried.pop("options").values())
    return {
        **found,
        "program_sha256": program.sha256[:12],
        "split": workloads.split(program.name),
        "target": program.target.name,
        "objective": judge.objective,
        "flags_us": flags_us(program),
        "solver": job.solver,
        "solve_s": job.solve_s,
        "translate_s": job.translate_s,
        "decodes": translations[0].decodes,
        "from_module": source.module is not None,
        "versions": versions,
        "wall_s": round(time.perf_counter() - begin, 1),
        "version": VERSION,
    }


def line_of(job: Job, record: Record) -> str:
    """Returns a line about a run that has ended."""
    return f"{job.program}: {record['kept'] or 'the default stays'}: {record['verdict']} ({record['wall_s']:.0f} s)"


def _say(line: str) -> None:
    print(f"  {line}", flush=True)


def main() -> int:
    """Runs what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", type=Path, required=True, metavar="PATH")
    parser.add_argument("--programs", nargs="+", metavar="NAME", help="by default all contended v5e and v6e ones")
    parser.add_argument("--solver", default="order-search", choices=list(SOLVERS), metavar="NAME")
    parser.add_argument("--solve-seconds", type=float, default=60.0, metavar="S")
    parser.add_argument("--translate-seconds", type=float, default=60.0, metavar="S")
    parser.add_argument("--candidates", type=int, default=4, metavar="N")
    parser.add_argument("--compile-minutes", type=float, default=15.0, metavar="M", help="for all compilations of one")
    parser.add_argument("--minutes", type=float, default=float("inf"), metavar="M", help="begin no run after so many")
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="FILE")
    given = parser.parse_args()
    wanted = [
        Job(
            name,
            str(given.python),
            given.solver,
            given.solve_seconds,
            given.translate_seconds,
            given.candidates,
            given.compile_minutes,
        )
        for name in given.programs or programs()
    ]

    def missing(job: Job) -> bool:
        described = {**job._asdict(), "program_sha256": workloads.load(job.program).sha256[:12]}
        return key_of(described) not in read([given.out])

    jobs = [job for job in wanted if missing(job)]
    print(f"{len(jobs)} programs missing", flush=True)
    return int(run_jobs(jobs, perform, missing, line_of, given.out, 1, given.minutes) > 0)


if __name__ == "__main__":
    sys.exit(main())
