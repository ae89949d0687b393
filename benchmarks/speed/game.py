"""Measures the speed of mallocGame: microseconds per decision and per search step, by length of program.

    python -m benchmarks.speed.game [WORKLOAD ...] [--seconds S] [--objective robust|msa|cycles]

Columns: a decision with its observation, driven from Python as an actor does; a decision without; a decision of a
whole game in one compiled call, as search over lines of play does; the simulator; the verifier; making a game with its
tables for one clock; making a further decoder of XLA's algorithm (a search has sixteen); a changed game of a walk,
judged, as annealing plays it (the same games in every run and version); an order of buffers decoded by XLA's algorithm
and judged, as `order-search` does. The last column divides a decision by that of the shortest program: the cost must
not grow with the length of the program.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table

from mallocmuzero.env.game.game import MallocGame, play_line
from mallocmuzero.env.game.moves import COPY
from mallocmuzero.env.game.observation import OBSERVATION_SIZE
from mallocmuzero.env.physics.objective import OBJECTIVES
from mallocmuzero.env.physics.simulator import simulate
from mallocmuzero.env.verifier.verify import verify
from mallocmuzero.env.workloads import load, names
from mallocmuzero.solvers.common.budget import PROCESSOR, Budget
from mallocmuzero.solvers.common.task import Task
from mallocmuzero.solvers.common.walk import Walk
from mallocmuzero.solvers.order.flags import Flags
from mallocmuzero.solvers.order.individual import Evaluator
from mallocmuzero.solvers.xla.decoder import Decoder
from mallocmuzero.solvers.xla.options import production

# Timed games of a walk.
_CHANGED = 1000


def per_call(call: Callable[[], int], seconds: float) -> float:
    """Returns the least microseconds per unit of work; `call` returns its number of units. The first call warms up."""
    call()
    best = np.inf
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        begin = time.perf_counter()
        units = call()
        best = min(best, (time.perf_counter() - begin) / max(units, 1))
    return best * 1e6


def changed_game(task: Task) -> float:
    """Returns microseconds of processor time per game of a walk from everything fast, after its first games."""
    walk = Walk(task, np.full(len(task.tables.access), COPY, np.int8))
    walk.step(_CHANGED // 2, 0.0)
    begin = time.process_time()
    walk.step(_CHANGED, 0.0)
    return (time.process_time() - begin) / _CHANGED * 1e6


def measure(name: str, seconds: float, objective: str | None) -> dict[str, float]:
    """Returns the figures of one workload."""
    program = load(name)
    game = MallocGame(program, objective=objective)
    out = np.zeros(OBSERVATION_SIZE, np.float32)
    rng = np.random.default_rng(0)

    def drive(observe: bool) -> int:
        game.reset()
        while not game.done:
            if observe:
                game.observe(out)
            game.step(int(rng.choice(np.flatnonzero(game.legal))))
        return game.decisions

    drive(observe=False)
    moves = list(game.actions)

    def whole() -> int:
        return len(play_line(game, moves))

    def simulated() -> int:
        simulate(program, program.target, mapping)
        return 1

    def verified() -> int:
        verify(program, program.target, mapping)
        return 1

    task = Task(program, None, objective, Budget(None, 10**9, PROCESSOR), 0)
    evaluator, options = Evaluator(task), production(program.target)
    individual = evaluator.start(Flags(slices=False))

    def decoded() -> int:
        evaluator.seconds(individual)
        return 1

    def made() -> int:
        MallocGame(program, objective=objective)
        return 1

    def decoder() -> int:
        Decoder(program, program.target, options)
        return 1

    whole()
    mapping = game.mapping()
    return {
        "instructions": program.num_instructions,
        "decisions": len(moves),
        "decision with observation, us": per_call(lambda: drive(observe=True), seconds),
        "decision, us": per_call(lambda: drive(observe=False), seconds),
        "decision in a compiled game, us": per_call(whole, seconds),
        "simulate, us": per_call(simulated, seconds),
        "verify, us": per_call(verified, seconds),
        "game, us": per_call(made, seconds),
        "decoder, us": per_call(decoder, seconds),
        "changed game, us": changed_game(task),
        "order, us": per_call(decoded, seconds),
    }


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", nargs="*", help="names or files; all committed workloads without any")
    parser.add_argument("--seconds", type=float, default=3.0, help="time per figure")
    parser.add_argument("--objective", choices=OBJECTIVES, help="by default robust where there is a cycle table")
    arguments = parser.parse_args()
    rows = {name: measure(name, arguments.seconds, arguments.objective) for name in arguments.workload or names()}
    base = rows[min(rows, key=lambda name: rows[name]["instructions"])]
    table = Table("workload", *next(iter(rows.values())), "decision, x shortest")
    for name, row in sorted(rows.items(), key=lambda item: item[1]["instructions"]):
        ratio = row["decision with observation, us"] / base["decision with observation, us"]
        table.add_row(
            name, *(f"{value:,.1f}" if value % 1 else f"{value:,.0f}" for value in row.values()), f"{ratio:.2f}"
        )
    Console(width=200).print(table)


if __name__ == "__main__":
    main()
