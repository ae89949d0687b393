"""Measures the cost of letting the game place small buffers: decisions and greedy latency by threshold (decision 0004).

python -m benchmarks.game.trivial_share [WORKLOAD ...]
"""

import argparse

from rich.console import Console
from rich.table import Table

from mallocmuzero.env.game.game import MallocGame
from mallocmuzero.env.workloads import load
from mallocmuzero.solvers.common.greedy_rules import play_greedy

SHARES = (1e-6, 1e-5, 3e-5, 1e-4, 3e-4)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", nargs="*", default=["unet-train-b2", "bert-train-b8"])
    table = Table("workload", *(f"{share:g}" for share in SHARES), title="decisions, greedy latency in us")
    for name in parser.parse_args().workload:
        cells = []
        for share in SHARES:
            game = MallocGame(load(name), objective="msa", trivial_share=share)
            play_greedy(game)
            cells.append(f"{game.decisions}, {game.latency_s * 1e6:.0f}")
        table.add_row(name, *cells)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
