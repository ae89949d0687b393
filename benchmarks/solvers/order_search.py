"""Compares the two halves of the solver `order-search`, population and climb, at equal processor time.

    python -m benchmarks.solvers.order_search [--seconds 20] [--seeds 1] [--shares 0 0.5 1] [--objective O] WORKLOAD ...

Prints a line per program, share of the time spent climbing, and seed: judged latency in per cent of production, the
best of the flag grid as the search replays it, and the number of mappings decoded.
"""

import argparse

from mallocmuzero.env.workloads import load
from mallocmuzero.solvers.common.budget import PROCESSOR, Budget
from mallocmuzero.solvers.common.task import Task
from mallocmuzero.solvers.flags import flags
from mallocmuzero.solvers.order.solver import order_search


def main() -> None:
    """Prints a line per run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="+")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.0, 0.5, 1.0])
    parser.add_argument("--objective")
    arguments = parser.parse_args()
    order_search(Task(load("tiny"), None, "msa", Budget(None, 60), 0))  # compiles
    for name in arguments.workloads:
        grid = Task(load(name), None, arguments.objective, Budget(1e6), 0)
        flags(grid)
        production_s = grid.game.judge.production_s or grid.game.all_hbm_s
        for share in arguments.shares:
            for seed in range(arguments.seeds):
                budget = Budget(arguments.seconds, clock=PROCESSOR)
                task = Task(load(name), None, arguments.objective, budget, seed)
                order_search(task, share)
                mapping = task.mapping()
                assert mapping is not None
                print(
                    f"{name}, {task.game.judge.objective}, {100 * share:g} % climbing, seed {seed}: "
                    f"{100 * task.game.judge.judge(mapping) / production_s:.2f} % "
                    f"(flags {100 * grid.best_s / production_s:.2f} %), {task.evaluations} mappings",
                    flush=True,
                )


if __name__ == "__main__":
    main()
