"""Every solver on every committed program at equal time budgets: resumable, a JSON file and a table.

    python benchmarks/solvers.py --out RESULTS.json [--seconds 10 60 600] [--solvers NAME ...] [--workloads NAME ...]
        [--objective robust] [--seeds N] [--table-only]

One core each; the clock of a run starts when everything is compiled. What RESULTS.json holds already is not run again,
so the command may be stopped and given again at any time. The table has latency in per cent of production's, beside the
best of the compiler's flags (`tuned`) and the bound where it is known (`mallocmuzero workloads`); then geometric means
over programs with 95 % bootstrap intervals (over programs, 10,000 draws).
"""

import argparse
import hashlib
import json
import os
import platform
from pathlib import Path
from typing import Any

import numpy as np
from mallocmuzero.actors.solvers.solve import SOLVERS, solve
from mallocmuzero.actors.solvers.task import Budget
from mallocmuzero.env.durable import write_atomically
from mallocmuzero.env.objective import make_judge, resolve
from mallocmuzero.env.program import Program
from mallocmuzero.env.workloads import load, names
from mallocmuzero.env.workloads.bounds import known
from mallocmuzero.version import VERSION
from rich.console import Console
from rich.table import Table

_DRAWS = 10_000
ROOT = Path(__file__).parent.parent


def key_of(program: Program, solver: str, objective: str, seconds: float, seed: int) -> str:
    """Returns what names a run in the results; it holds the program's hash, so that a changed program runs again."""
    return f"{program.name}/{program.sha256[:12]}/{objective}/{solver}/{seconds:g}s/{seed}"


def run_all(arguments: argparse.Namespace, results: dict[str, Any]) -> None:
    """Runs what is missing and writes the file after each run."""
    for seconds in sorted(arguments.seconds):
        for name in arguments.workloads:
            program = load(name)
            objective = resolve(program, arguments.objective)
            for solver in arguments.solvers:
                for seed in range(arguments.seeds):
                    key = key_of(program, solver, objective, seconds, seed)
                    if key in results["runs"]:
                        continue
                    solution = solve(program, solver, objective=objective, budget=Budget(seconds), seed=seed)
                    if solution.stopped:
                        raise KeyboardInterrupt
                    results["runs"][key] = {
                        "program": name,
                        "solver": solver,
                        "objective": objective,
                        "budget_s": seconds,
                        "seed": seed,
                        "latency_us": solution.judged_s * 1e6,
                        "evaluations": solution.evaluations,
                        "seconds": solution.seconds,
                        "load": os.getloadavg()[0],
                    }
                    references(program, objective, results)
                    write_atomically(arguments.out, (json.dumps(results, indent=1, sort_keys=True) + "\n").encode())
                    print(f"{key}: {solution.judged_s * 1e6:.2f} us, {solution.evaluations} games", flush=True)


def references(program: Program, objective: str, results: dict[str, Any]) -> None:
    """Adds production, tuned, floor and bound of a program to the results, in microseconds."""
    judge = make_judge(program, objective)
    tuned = judge.tuned()
    results["references"][f"{program.name}/{objective}"] = {
        "production_us": None if judge.production_s is None else judge.production_s * 1e6,
        "tuned_us": None if tuned is None else judge.seconds(tuned) * 1e6,
        "floor_us": judge.floor_s() * 1e6,
        "bound_us": bound_us(program, objective, judge.production_s),
    }


def bound_us(program: Program, objective: str, production_s: float | None) -> float | None:
    """Returns the proved bound in microseconds as the judge counts, or None."""
    found = known(program).get(objective)
    if found is None:
        return None
    if objective == "robust":  # a ratio to production
        return None if production_s is None else found.bound * production_s * 1e6
    return float(found.bound * 1e6)


def geometric_mean(ratios: list[float]) -> tuple[float, float, float]:
    """Returns the geometric mean and its bootstrap interval over programs."""
    logs = np.log(np.array(ratios))
    draws = np.random.default_rng(0).choice(logs, (_DRAWS, len(logs))).mean(1)
    low, high = np.quantile(draws, [0.025, 0.975])
    return float(np.exp(logs.mean())), float(np.exp(low)), float(np.exp(high))


def print_tables(arguments: argparse.Namespace, results: dict[str, Any]) -> None:
    """Prints a table per budget: programs by solvers, then the geometric means."""
    runs = [run for run in results["runs"].values() if run["solver"] in arguments.solvers]
    runs = [run for run in runs if run["program"] in arguments.workloads]
    for seconds in sorted({run["budget_s"] for run in runs}):
        table = Table(title=f"Latency in % of production, {seconds:g} s per program, one core (mean over seeds)")
        for heading in ("program", "objective", "production us", "tuned", "bound", *arguments.solvers):
            table.add_column(heading, justify="left" if heading in ("program", "objective") else "right", no_wrap=True)
        ratios: dict[str, list[float]] = {solver: [] for solver in arguments.solvers}
        mine = [run for run in runs if run["budget_s"] == seconds]
        for name, objective in sorted({(run["program"], run["objective"]) for run in mine}):
            refer = results["references"][f"{name}/{objective}"]
            production = refer["production_us"]
            if production is None:
                continue
            cells = []
            for solver in arguments.solvers:
                found = [r["latency_us"] for r in mine if (r["program"], r["solver"]) == (name, solver)]
                if found:
                    ratios[solver].append(float(np.mean(found)) / production)
                cells.append(f"{100 * np.mean(found) / production:.2f}" if found else "-")
            tuned, bound = (
                "-" if refer[key] is None else f"{100 * refer[key] / production:.2f}"
                for key in ("tuned_us", "bound_us")
            )
            table.add_row(name, objective, f"{production:,.1f}", tuned, bound, *cells)
        table.add_section()
        means = {solver: geometric_mean(found) if found else None for solver, found in ratios.items()}
        table.add_row(
            "geometric mean",
            "",
            "",
            "",
            "",
            *("-" if m is None else f"{100 * m[0]:.2f} ({100 * m[1]:.2f}-{100 * m[2]:.2f})" for m in means.values()),
        )
        Console(width=200).print(table)


def main() -> None:
    """Runs and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, metavar="RESULTS.json")
    parser.add_argument("--seconds", type=float, nargs="*", default=[10.0, 60.0, 600.0])
    parser.add_argument("--solvers", nargs="*", default=list(SOLVERS))
    parser.add_argument("--workloads", nargs="*", default=names())
    parser.add_argument("--objective", help="robust (the default where it can be), msa or cycles")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--table-only", action="store_true", help="run nothing")
    arguments = parser.parse_args()
    code = hashlib.sha256(b"".join(f.read_bytes() for f in sorted((ROOT / "actors/solvers").glob("*.py")))).hexdigest()
    results: dict[str, Any] = {"runs": {}, "references": {}}
    if arguments.out.exists():
        results = json.loads(arguments.out.read_text(encoding="utf-8"))
    results.setdefault("made_by", {"version": VERSION, "machine": platform.processor(), "solvers_sha256": code})
    if results["made_by"]["solvers_sha256"] != code:
        print("note: the solvers have changed since these results were begun; a new file starts anew")
    if not arguments.table_only:
        try:
            run_all(arguments, results)
        except KeyboardInterrupt:
            print("stopped; the same command goes on from here")
    print_tables(arguments, results)


if __name__ == "__main__":
    main()
