"""Compares an actor with the bare search it is built around: moves per second, and where its time goes.

    python -m benchmarks.speed.actor [WORKLOAD ...] [--games 64] [--simulations 8] [--seconds 10]

The bare search runs on the same network, batch and simulations in the same process, right before the actor does. The
actor plays whole games (or branches, with `--branches SHARE`), and its steps go to a replay that drops them.
"""

import argparse
import os
import time

import jax
from rich.console import Console
from rich.table import Table

from mallocmuzero.actors.search.search import SearchConfig
from mallocmuzero.actors.self_play.actor import SelfPlayActor
from mallocmuzero.actors.self_play.branch import BranchConfig
from mallocmuzero.actors.self_play.config import ActorConfig
from mallocmuzero.env.game.observation import CHANNELS, COLUMNS, OBSERVATION_SIZE, ROWS
from mallocmuzero.env.workloads import load
from mallocmuzero.learner.networks.network import Network, NetworkConfig
from mallocmuzero.replay.segment import Step

from .search import time_search

_WORKLOADS = ("tiny", "resnet50-b128", "bert-train-b8")


class Nowhere:
    """A writer that keeps nothing."""

    def append(self, step: Step) -> None:
        """Drops a step."""

    def end_episode(self, cut: bool = False) -> None:
        """Does nothing."""

    def flush(self, timeout: float | None = None) -> None:
        """Does nothing."""

    def close(self) -> None:
        """Does nothing."""


def measure(name: str, arguments: argparse.Namespace, network: Network) -> dict[str, float]:
    """Returns the figures of one workload."""
    params = network.init(jax.random.PRNGKey(0))
    config = SearchConfig(simulations=arguments.simulations)
    games = arguments.games
    settings = ActorConfig(games=games, branch=BranchConfig(share=arguments.branches))
    actor = SelfPlayActor([load(name)], network, config, settings, [Nowhere() for _ in range(games)], seed=0)
    actor.set_parameters(params, 0)
    actor.play(4 * games)  # compiles
    bare = games / time_search(network, params, games, config)
    begin, cpu = time.perf_counter(), time.process_time()
    moves, search_s, game_s, replay_s = 0, 0.0, 0.0, 0.0
    while time.perf_counter() - begin < arguments.seconds:
        report = actor.play(8 * games)
        moves += report.moves
        search_s += report.search_seconds
        game_s += report.game_seconds
        replay_s += report.replay_seconds
    seconds = time.perf_counter() - begin
    return {
        "bare search, moves/s": bare,
        "actor, moves/s": moves / seconds,
        "actor / bare": moves / seconds / bare,
        "search, share": search_s / seconds,
        "games, share": game_s / seconds,
        "replay, share": replay_s / seconds,
        "cores busy": (time.process_time() - cpu) / seconds,
    }


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", nargs="*", default=_WORKLOADS, help="names or files")
    parser.add_argument("--games", type=int, default=64, help="games played at once")
    parser.add_argument("--simulations", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=10.0, help="time per workload")
    parser.add_argument("--branches", type=float, default=0.0, metavar="SHARE", help="share of games that are branches")
    arguments = parser.parse_args()
    network = Network(NetworkConfig(observation_size=OBSERVATION_SIZE, grid=(ROWS, COLUMNS, CHANNELS)))
    cores = len(os.sched_getaffinity(0))
    table = Table(title=f"batch {arguments.games}, {arguments.simulations} simulations, {cores} cores")
    rows = {name: measure(name, arguments, network) for name in arguments.workload}
    for heading in ("workload", *next(iter(rows.values()))):
        table.add_column(heading, justify="right")
    for name, row in rows.items():
        table.add_row(name, *(f"{value:,.0f}" if value >= 100 else f"{value:.2f}" for value in row.values()))
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
