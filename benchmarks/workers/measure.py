"""Measures what workers are worth to `guided` (docs/results/workers.md).

    python -m benchmarks.workers.measure [--programs NAME|SPLIT|contended ...] [--workers 1 4 16] [--seconds 10]
        [--seeds 1] [--objective msa] [--machine LABEL]

A worker has a core of its own: on a machine with fewer cores than workers the figures mean nothing, and the command
ends. Each number of workers above one is run twice: *together*, showing each other their plans, and *apart*, where the
best of several seeds is kept. Seconds are wall time. A record that is there is not made again.
"""

import argparse
import os
from pathlib import Path

from mallocmuzero.env import workloads
from mallocmuzero.env.physics.objective import make_judge
from mallocmuzero.env.workloads import load
from mallocmuzero.launch.run.guided import GUIDED, learned_solvers
from mallocmuzero.launch.run.workers import Request, solve_with_workers
from mallocmuzero.solvers.common.budget import Budget
from mallocmuzero.solvers.solve import SOLVERS, warm_up

from ..common.job_pool import one_thread
from ..common.json_lines import ROOT, Record, append, keyed_by, read_runs
from ..common.versions import GUIDED as SUBJECT
from ..common.versions import versions_of
from ..solvers.references import is_contended, programs_of

RESULTS = ROOT / "docs" / "results" / "workers.jsonl"
key_of = keyed_by("program", "objective", "workers", "together", "seconds", "seed", "versions", "machine")


def main() -> None:
    """Measures what is missing."""
    one_thread()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", nargs="+", default=["contended"])
    parser.add_argument("--workers", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--objective", help="default: that of `solve`")
    parser.add_argument("--machine", default="a", help="a label; figures of two machines are not compared")
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    if max(arguments.workers) > cores:
        raise SystemExit(f"--workers {max(arguments.workers)} need as many cores, and here are {cores}")
    warm_up({**SOLVERS, **learned_solvers()}[GUIDED])
    done = {key for key, _ in read_runs([arguments.results], key_of)}
    for name in programs_of(arguments.programs, lambda name: is_contended(load(name))):
        program = load(name)
        judge = make_judge(program, arguments.objective)
        for seed in range(arguments.seeds):
            for workers in arguments.workers:
                for together in (False, True) if workers > 1 else (False,):
                    record: Record = {
                        "program": name,
                        "objective": judge.objective,
                        "workers": workers,
                        "together": together,
                        "seconds": arguments.seconds,
                        "seed": seed,
                        "versions": versions_of(SUBJECT),
                        "machine": arguments.machine,
                    }
                    if key_of(record) in done:
                        continue
                    request = Request(
                        GUIDED, judge.objective, Budget(arguments.seconds), seed, None, None, True, together
                    )
                    solution = solve_with_workers(program, request, workers)
                    record |= {
                        "judged_s": solution.judged_s,
                        "production_s": judge.production_s,
                        "evaluations": solution.evaluations,
                        "spent_s": solution.seconds,
                        "accesses": program.num_accesses,
                        "split": workloads.split(name),
                    }
                    append(arguments.results, record)
                    ratio = 100.0 * solution.judged_s / (judge.production_s or solution.judged_s)
                    way = " together" if together else ""
                    print(f"{name}, seed {seed}, {workers}{way}: {ratio:.3f} % of production", flush=True)


if __name__ == "__main__":
    main()
