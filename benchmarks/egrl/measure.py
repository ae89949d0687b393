"""Compares the methods of the EGRL paper (Khadka et al., arXiv 2007.07298) at equal numbers of games.

    python -m benchmarks.egrl.measure [--programs NAME ...] [--methods NAME ...] [--evaluations N] [--seeds N]
        [--objective msa] [--figure best|mapping] [--out FILE] [--picture FILE] [--table-only]

Makes the runs that FILE lacks, seed by seed, and writes FILE after each, so the command may be stopped and repeated.
Then prints the table, and draws speed-up over XLA's own mapping against games. Every run has one thread.

`anneal` and `random-plans` are the solvers `anneal` and `random` with as many games. The methods of the paper give
homes to whole tensors; these two have a preference at each access, and only `anneal` is given lines of play to start
from.

`--figure best` is the best game, which the method has searched; `mapping` is its mapping after free space was filled,
as every solver ends.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

from ..common.job_pool import one_thread

if __name__ == "__main__":
    one_thread()

import numpy as np

from mallocmuzero.env import workloads
from mallocmuzero.env.verifier.verify import verify
from mallocmuzero.solvers.common.budget import Budget, Status
from mallocmuzero.solvers.common.task import Task
from mallocmuzero.solvers.egrl.play import RewardConfig
from mallocmuzero.solvers.egrl.solver import METHODS, EgrlConfig, play_method
from mallocmuzero.solvers.solve import SOLVERS

PROGRAMS = ("resnet50-b128", "resnet50-b32-v4", "resnet101-b32-v5p", "bert-b32-s384")
OTHERS = {"anneal": "anneal", "random-plans": "random"}
# A refused preference makes the reward minus the share that was refused, as on the chip of the paper.
STRICT = {"egrl-strict": "egrl", "ea-strict": "ea"}
DEFAULT = ("random", "greedy-dp", "ea", "pg", "egrl", "anneal")
_POINTS = 100


def run(program_name: str, method: str, evaluations: int, seed: int, objective: str) -> dict[str, Any]:
    """Returns the record of a run: speed-ups over XLA's mapping of the best games and of the verified mapping."""
    program = workloads.load(program_name)
    points = np.unique(np.geomspace(1, evaluations, _POINTS).astype(int))
    best = np.full(len(points), np.inf)

    def progress(status: Status) -> None:
        # A later call overwrites the points that it has not reached, so a skipped point keeps the best before it.
        if np.isfinite(status.best_s):
            best[points >= max(status.evaluations, 1)] = status.best_s

    task = Task(program, None, objective, Budget(None, evaluations), seed, progress)
    begin = time.perf_counter()
    if method in OTHERS:
        SOLVERS[OTHERS[method]](task)
    else:
        config = EgrlConfig(reward=RewardConfig(strict=method in STRICT))
        play_method(task, STRICT.get(method, method), config)
    seconds = time.perf_counter() - begin
    judge = task.game.judge
    mapping = task.mapping()
    assert mapping is not None
    assert judge.production_s is not None
    assert verify(program, judge.target, mapping) == []
    best[-1] = task.best_s
    return {
        "games": task.evaluations,
        "seconds": round(seconds, 1),
        "best": round(judge.production_s / task.best_s, 6),
        "mapping": round(judge.production_s / judge.judge(mapping), 6),
        "curve": [
            [int(point), round(judge.production_s / value, 5)]
            for point, value in zip(points, best, strict=True)
            if np.isfinite(value)
        ],
    }


def key(program: str, method: str, evaluations: int, seed: int, objective: str) -> str:
    """Returns the key of a run in the file."""
    return f"{program} {objective} {evaluations} {method} {seed}"


def collect(kept: dict[str, Any], arguments: argparse.Namespace) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Returns the runs of the file by program and method."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for program in arguments.programs:
        for method in arguments.methods:
            keys = [
                key(program, method, arguments.evaluations, seed, arguments.objective)
                for seed in range(arguments.seeds)
            ]
            runs = [kept[name] for name in keys if name in kept]
            if runs:
                found[program, method] = runs
    return found


def table(found: dict[tuple[str, str], list[dict[str, Any]]], arguments: argparse.Namespace) -> str:
    """Returns a Markdown table of speed-ups: mean, deviation over seeds, number of seeds."""
    lines = [
        "| method | " + " | ".join(arguments.programs) + " | seconds per run |",
        "|---" * (len(arguments.programs) + 2) + "|",
    ]
    for method in arguments.methods:
        cells, seconds = [], []
        for program in arguments.programs:
            runs = found.get((program, method), [])
            if not runs:
                cells.append("")
                continue
            values = np.array([entry[arguments.figure] for entry in runs])
            seconds += [entry["seconds"] for entry in runs]
            spread = f" ± {values.std(ddof=1):.4f}" if len(values) > 1 else ""
            cells.append(f"{values.mean():.4f}{spread} ({len(values)})")
        if seconds:
            lines.append(f"| `{method}` | " + " | ".join(cells) + f" | {np.median(seconds):.0f} |")
    return "\n".join(lines)


def draw(found: dict[tuple[str, str], list[dict[str, Any]]], arguments: argparse.Namespace) -> None:
    """Draws the best speed-up so far against games: the mean, with a band of one deviation over seeds."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    programs = [name for name in arguments.programs if any(program == name for program, _ in found)]
    figure, axes = pyplot.subplots(1, len(programs), figsize=(4.2 * len(programs), 3.6), squeeze=False)
    for axis, program in zip(axes[0], programs, strict=True):
        for number, method in enumerate(arguments.methods):
            curves = [dict(map(tuple, entry["curve"])) for entry in found.get((program, method), [])]
            shared = sorted(set.intersection(*(set(curve) for curve in curves))) if curves else []
            if not shared:
                continue
            values = np.array([[curve[point] for point in shared] for curve in curves])
            mean, spread = values.mean(0), values.std(0)
            axis.plot(shared, mean, color=f"C{number}", label=f"{method} ({len(curves)})")
            axis.fill_between(shared, mean - spread, mean + spread, color=f"C{number}", alpha=0.15, linewidth=0)
        axis.axhline(1.0, color="0.5", linewidth=0.8)
        axis.set_xscale("log")
        axis.set_xlim(10, arguments.evaluations)
        axis.set_title(program)
        axis.set_xlabel("games")
    axes[0][0].set_ylabel("speed-up over XLA's mapping")
    axes[0][0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(arguments.picture, dpi=110)


def main() -> None:
    """Makes the missing runs, then prints and draws."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", nargs="+", default=list(PROGRAMS))
    parser.add_argument("--methods", nargs="+", default=list(DEFAULT), choices=[*METHODS, *OTHERS, *STRICT])
    parser.add_argument("--evaluations", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--objective", default="msa")
    parser.add_argument("--out", type=Path, default=Path("docs/results/egrl.json"))
    parser.add_argument("--picture", type=Path, default=Path("docs/results/egrl.png"))
    parser.add_argument("--figure", choices=("best", "mapping"), default="best")
    parser.add_argument("--table-only", action="store_true")
    arguments = parser.parse_args()
    kept = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    runs = [(p, m, s) for s in range(arguments.seeds) for m in arguments.methods for p in arguments.programs]
    for program, method, seed in [] if arguments.table_only else runs:
        name = key(program, method, arguments.evaluations, seed, arguments.objective)
        if name in kept:
            continue
        kept[name] = run(program, method, arguments.evaluations, seed, arguments.objective)
        print(name, kept[name]["mapping"], kept[name]["seconds"], flush=True)
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        partial = arguments.out.with_suffix(".part")
        partial.write_text(json.dumps(kept, separators=(",", ":")).replace('},"', '},\n"') + "\n")
        partial.replace(arguments.out)
    found = collect(kept, arguments)
    print(table(found, arguments))
    if found:
        draw(found, arguments)


if __name__ == "__main__":
    main()
