"""Measures the oracle: good games found by search, told in several ways as moves (docs/results/oracle.md).

python -m benchmarks.oracle.measure [PROGRAM ...] [--seconds 5] [--objectives msa robust]

Programs on which the search ends less than 1 % below production are left out. A record that is there is not made again.
"""

import argparse

from mallocmuzero.env import workloads
from mallocmuzero.env.game.tables import Tables
from mallocmuzero.env.physics.objective import OBJECTIVES, ROBUST
from mallocmuzero.solvers.common.budget import PROCESSOR, Budget
from mallocmuzero.solvers.common.task import PlanTables, Task
from mallocmuzero.solvers.learned.solver import guided
from mallocmuzero.solvers.solve import warm_up

from ..common.json_lines import ROOT, Record, append, keyed_by, read_runs
from ..common.versions import GUIDED, versions_of
from .tell import ways_to_tell

RESULTS = ROOT / "docs" / "results" / "oracle.jsonl"
key_of = keyed_by("program", "objective", "seconds", "versions")
_ROOM = 0.01


def measure(name: str, objective: str, seconds: float) -> Record:
    """Returns the record of a program: seconds of the label and of each way, in production's; no ways without room."""
    program = workloads.load(name)
    task = Task(program, None, objective, Budget(seconds, clock=PROCESSOR), 0)
    guided(task, None)
    best, production_s = task.best, task.game.judge.production_s
    if production_s is None:
        raise SystemExit(f"{name}: has no production mapping to compare with")
    record: Record = {
        "program": name,
        "objective": objective,
        "seconds": seconds,
        "split": workloads.split(name),
        "versions": versions_of(GUIDED),
        "label": best.seconds / production_s,
        "ways": {},
    }
    if best.plan is not None and record["label"] < 1.0 - _ROOM:
        judging = Task(program, None, objective, Budget(None, 10**9), 0)
        tables = best.plan_tables.tables
        told = ways_to_tell(judging, best.plan, best.plan_tables, _plain(judging, tables))
        record["ways"] = {way: told_s / production_s for way, told_s in told.items()}
    return record


def _plain(task: Task, tables: Tables) -> PlanTables:
    """Returns tables with the same share of `msa` in the clock, and no hints."""
    shares = task.msa_shares
    return task.tables_with(
        min(shares, key=lambda share: abs(task.game.judge.clock(share).msa - float(tables.rates.msa)))
    )


def main() -> None:
    """Measures what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="*", help="by default all of the benchmark")
    parser.add_argument("--seconds", type=float, default=5.0, help="processor time of each search")
    parser.add_argument("--objectives", nargs="+", choices=OBJECTIVES, default=["msa", ROBUST])
    arguments = parser.parse_args()
    warm_up(lambda task: guided(task, None))
    done = {key for key, _ in read_runs([RESULTS], key_of)}
    for objective in arguments.objectives:
        for name in arguments.program or workloads.names():
            wanted = {"program": name, "objective": objective, "seconds": arguments.seconds}
            if key_of({**wanted, "versions": versions_of(GUIDED)}) not in done:
                record = measure(name, objective, arguments.seconds)
                append(RESULTS, record)
                print(name, objective, f"{record['label']:.4f}", flush=True)


if __name__ == "__main__":
    main()
