"""Picks the portfolio's rules (`solvers/starts/portfolio.py`), and shows what each adds; held-out programs only watch.

python -m benchmarks.starts.portfolio [--rules 12] [--objective msa]

Every rule of a grid is played on every program with all, half and a quarter of its fast memory. Rules are picked one by
one, each for the least geometric mean of the best plan so far over the train and validation programs. The last line
compares with as many knapsacks drawn at random.
"""

import argparse
import itertools

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table

from mallocmuzero.actors.self_play.resize import resize_fast_memory
from mallocmuzero.env import workloads
from mallocmuzero.env.game.moves import DROP
from mallocmuzero.env.program.program import Program
from mallocmuzero.env.residency.stays import CUTS
from mallocmuzero.solvers.common.budget import Budget
from mallocmuzero.solvers.common.task import Task
from mallocmuzero.solvers.starts.knapsack import POWERS
from mallocmuzero.solvers.starts.portfolio import Knapsack, Portfolio, Rounded
from mallocmuzero.solvers.starts.rounding import ORDERS

SHARES = (1.0, 0.5, 0.25)
GRID: list[Knapsack | Rounded] = [
    *(Rounded(*each) for each in itertools.product((0.15, 0.5), ORDERS, (False, True))),
    *(Knapsack(*each) for each in itertools.product(CUTS, POWERS, (1.0, 0.8), (False, True))),
]
# A program without more decisions is no problem; one with more takes minutes.
_LEAST, _MOST = 8, 4_000
_DRAWS = 100


def results(program: Program, objective: str) -> NDArray[np.float64] | None:
    """Returns `[R]` the seconds of each rule of the grid in production's; None for a program that is left out."""
    task = Task(program, None, objective, Budget(None, 10**9), 0)
    if not _LEAST <= len(task.free) <= _MOST:
        return None
    portfolio = Portfolio(task.tables, program.reserved)
    plans = [portfolio.plan(rule) for rule in GRID]
    nothing = task.play(np.full(len(task.tables.access), DROP, np.int8))
    seconds = [nothing if plan is None else task.play(plan) for plan in plans]
    return np.array(seconds) / (task.game.judge.production_s or nothing)


def geometric_mean(ratios: NDArray[np.float64]) -> float:
    """Returns the geometric mean in per cent."""
    return float(100.0 * np.exp(np.log(ratios).mean()))


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rules", type=int, default=12, help="rules to pick")
    parser.add_argument("--objective", default="msa", help="msa, cycles or robust; the latter two with all memory only")
    arguments = parser.parse_args()
    names = [name for name in workloads.names() if workloads.split(name) != "control"]
    shares = SHARES if arguments.objective == "msa" else SHARES[:1]
    rows, held = [], []
    for name, share in track(list(itertools.product(names, shares)), "playing", console=Console(stderr=True)):
        program = workloads.load(name)
        found = results(program if share == 1.0 else resize_fast_memory(program, share), arguments.objective)
        if found is not None:
            rows.append(found)
            held.append(workloads.split(name) == "heldout")
    ratios, heldout = np.array(rows), np.array(held)

    best, picked = np.full(len(ratios), np.inf), []
    table = Table("rule", "train, validation", "held out", title="% of production, the best of the rules so far")
    for _ in range(arguments.rules):
        means = [geometric_mean(np.minimum(best, ratios[:, k])[~heldout]) for k in range(len(GRID))]
        picked.append(int(np.argmin(means)))
        best = np.minimum(best, ratios[:, picked[-1]])
        table.add_row(str(GRID[picked[-1]]), f"{means[picked[-1]]:.2f}", f"{geometric_mean(best[heldout]):.2f}")
    everything = ratios.min(axis=1)
    table.add_row(
        f"all {len(GRID)}", f"{geometric_mean(everything[~heldout]):.2f}", f"{geometric_mean(everything[heldout]):.2f}"
    )
    draw = np.random.default_rng(0)
    plain = [k for k, rule in enumerate(GRID) if isinstance(rule, Knapsack) and not rule.writes_back]
    drawn = np.array([ratios[:, draw.choice(plain, arguments.rules, replace=False)].min(axis=1) for _ in range(_DRAWS)])
    table.add_row(
        f"{arguments.rules} knapsacks at random",
        *(f"{np.mean([geometric_mean(each[part]) for each in drawn]):.2f}" for part in (~heldout, heldout)),
    )
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
