"""Computes bounds on all committed programs into env/workloads/bounds.json (its keys: env/workloads/known_bounds.py).

    python -m benchmarks.bounds.measure [--seconds 60] [--objective O ...] [--scope unreplaced] [--again] [PROGRAM ...]

With `--scope` the bounds hold for fewer mappings (docs/bounds.md) and go into docs/results/bounds-SCOPE.json.

Leaves results of the same program, objective and version alone, unless `--again`, and writes each result at once, so
the command may be stopped and repeated. Prints the table of all.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from mallocmuzero.env import workloads
from mallocmuzero.env.bounds.bound import PROVED_GAP, VERSION, bound
from mallocmuzero.env.bounds.placement import Rules
from mallocmuzero.env.bounds.relaxation import SCOPES
from mallocmuzero.env.physics.cost import CYCLES, available_models
from mallocmuzero.env.physics.objective import OBJECTIVES, ROBUST, make_judge
from mallocmuzero.env.program.program import Program
from mallocmuzero.env.storage.atomic import write_atomically
from mallocmuzero.env.workloads.known_bounds import FORMAT, PATH, judged_by
from mallocmuzero.solvers.common.budget import Budget
from mallocmuzero.solvers.solve import solve

LEGAL = "legal"
FIGURES = ("floor", "relaxation", "integer", "found", "production", "bound", "best_known")


def main() -> None:
    """Fills the file and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="*", help="workloads; all by default")
    parser.add_argument("--seconds", type=float, default=60.0, help="time limit for each program and objective")
    parser.add_argument("--objective", nargs="+", choices=OBJECTIVES, default=["msa", "cycles", "robust"])
    parser.add_argument("--scope", choices=SCOPES, default=LEGAL, help="the mappings that the bounds hold for")
    parser.add_argument("--again", action="store_true", help="also the results that the file has")
    parser.add_argument("--anneal", type=float, default=0.0, help="seconds of simulated annealing besides")
    parser.add_argument("--relaxation", action="store_true", help="no integer programs, for a quick pass")
    parser.add_argument(
        "--capacity-rows", type=int, default=Rules.most_capacity_rows, help="more are tighter and slower"
    )
    parser.add_argument("--table", action="store_true", help="only print the table of the file")
    arguments = parser.parse_args()
    if not arguments.table:
        # Small programs first.
        names = sorted(workloads.names(), key=lambda name: workloads.workload(name).path.stat().st_size)
        for name in arguments.program or names:
            program = workloads.load(name)
            for objective in arguments.objective:
                if objective == "msa" or CYCLES in available_models(program):
                    _run(program, objective, arguments)
    _print_table(_read(path_of(arguments.scope)))


def path_of(scope: str) -> Path:
    """Returns the file of the bounds for mappings of a scope."""
    if scope == LEGAL:
        return PATH
    return Path(__file__).parents[2] / "docs" / "results" / f"bounds-{scope}.json"


def _run(program: Program, objective: str, arguments: argparse.Namespace) -> None:
    judge = make_judge(program, objective)
    key = {
        "program_sha256": program.sha256,
        "objective": objective,
        "judged_by": judged_by(judge),
        "version": VERSION,
    }
    path = path_of(arguments.scope)
    records = _read(path)
    # Done: tried with as much time, or solved.
    for record in records:
        tried = record["tried_seconds"] >= arguments.seconds and (record["tried_integer"] or arguments.relaxation)
        done = record["relaxation"] is not None and (
            arguments.relaxation or record["optimal"] or record["bound_proved"]
        )
        if key.items() <= record.items() and (tried or done) and not arguments.again:
            return
    found = bound(
        program,
        objective,
        arguments.seconds,
        arguments.scope,
        most_capacity_rows=arguments.capacity_rows,
        integer=not arguments.relaxation,
    )
    best_s = found.mapping_s
    if arguments.anneal > 0:
        best_s = min(best_s, solve(program, "anneal", None, objective, Budget(arguments.anneal)).judged_s)
    # Better figures of an earlier record stay: it has the same program and judge.
    before = [record for record in records if key.items() <= record.items()]
    unit = judge.production_s if objective == ROBUST and judge.production_s else 1.0
    seconds_of = {
        "floor": found.floor_s,
        "relaxation": found.relaxation_s,
        "integer": found.integer_s,
        "found": found.found_s,
        "production": found.production_s,
        "bound": max([found.bound_s, *(record["bound"] * unit for record in before)]),
        "best_known": min([best_s, *(record["best_known"] * unit for record in before)]),
    }
    record: dict[str, Any] = {"program": program.name, **key}
    record |= {name: None if value is None else value / unit for name, value in seconds_of.items()}
    record |= {"tried_seconds": arguments.seconds, "tried_integer": not arguments.relaxation}
    proved = seconds_of["best_known"] <= seconds_of["bound"] * (1.0 + PROVED_GAP)
    record |= {"bound_proved": proved, "optimal": found.optimal, "seconds": round(found.seconds, 1)}
    record |= dict(zip(("columns", "rows", "integers"), found.size, strict=True))
    # Read again: another process may have written meanwhile.
    same = ("program", "objective")
    records = [other for other in _read(path) if any(other[name] != record[name] for name in same)] + [record]
    records.sort(key=lambda r: (r["program"], r["objective"]))
    write_atomically(path, text_of(records).encode())
    print(f"{program.name} {objective}: {found.seconds:.0f} s, gap {found.gap:.2%}", file=sys.stderr, flush=True)


def text_of(records: list[dict[str, Any]]) -> str:
    """Returns the text of a file of bounds: one line per record."""
    lines = ",\n".join(json.dumps(record) for record in records)
    return f'{{"format": "{FORMAT}", "records": [\n{lines}\n]}}\n'


def _read(path: Path) -> list[dict[str, Any]]:
    return list(json.loads(path.read_text(encoding="utf-8"))["records"]) if path.exists() else []


def _print_table(records: list[dict[str, Any]]) -> None:
    table = Table("program", "objective", title="us; under robust ratios to production")
    for heading in (*FIGURES, "headroom", "seconds"):
        table.add_column(heading, justify="right")
    for record in records:
        unit, form = (1.0, ".4f") if record["objective"] == ROBUST else (1e6, ".1f")
        cells = ["-" if record[name] is None else f"{record[name] * unit:{form}}" for name in FIGURES]
        cells[-1] += "*" if record["bound_proved"] else ""
        headroom = 1.0 - record["bound"] / record["production"] if record["production"] else None
        cells.append("-" if headroom is None else f"{headroom:.1%}")
        table.add_row(record["program"], record["objective"], *cells, f"{record['seconds']:.0f}")
    console = Console(width=150)
    console.print(table)
    console.print("* proved: the bound is within 0.1 % of the best known mapping")


if __name__ == "__main__":
    main()
