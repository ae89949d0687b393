"""Measures the speed of search and learner: moves per second, and updates per second.

    python -m benchmarks.speed.search [--observation-size D] [--grid H W C]

Prints moves per second by batch size and number of simulations, each with its ratio to batch 1, and the updates and
segments per second of the learner at its default batch size. Weights and observations are random; the work does not
depend on them. The best of several repetitions counts, since other processes only slow one down.
"""

import argparse
import time
from collections.abc import Callable

import jax
import numpy as np

from mallocmuzero.actors.search.search import SearchConfig, search
from mallocmuzero.learner.config import LearnerConfig
from mallocmuzero.learner.networks.network import Network, NetworkConfig, Params
from mallocmuzero.learner.state import init_state
from mallocmuzero.learner.update import make_optimiser, make_update
from mallocmuzero.replay.segment import Batch

BATCHES = (1, 16, 64, 256)
SIMULATIONS = (8, 16)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--observation-size", type=int, default=512, metavar="D")
    parser.add_argument("--grid", type=int, nargs=3, default=None, metavar=("H", "W", "C"))
    arguments = parser.parse_args()
    grid = tuple(arguments.grid) if arguments.grid else None
    network = Network(NetworkConfig(observation_size=arguments.observation_size, grid=grid))
    params = network.init(jax.random.PRNGKey(0))
    count = sum(leaf.size for leaf in jax.tree.leaves(params))
    print(
        f"jax {jax.__version__} on {jax.devices()[0].device_kind}; {network.config.width} wide, {count:,} parameters\n"
    )

    print(f"{'simulations':>11}  {'batch':>5}  {'moves/s':>8}  {'ms/search':>9}  {'to batch 1':>10}")
    for simulations in SIMULATIONS:
        single = 0.0
        for batch_size in BATCHES:
            seconds = time_search(network, params, batch_size, SearchConfig(simulations=simulations))
            rate = batch_size / seconds
            single = single or rate
            print(f"{simulations:>11}  {batch_size:>5}  {rate:>8,.0f}  {1e3 * seconds:>9.2f}  {rate / single:>9.1f}x")

    config = LearnerConfig()
    seconds = time_update(network, config)
    print(
        f"\nlearner: {1 / seconds:.1f} updates/s, {config.batch_size / seconds:,.0f} segments/s "
        f"(batch {config.batch_size}, unroll {config.unroll_steps}, td {config.td_steps})"
    )


def best_seconds(call: Callable[[], object], repetitions: int = 7, least_s: float = 0.2) -> float:
    """Returns seconds per call after compiling: the best of `repetitions` of at least `least_s` seconds each."""
    jax.block_until_ready(call())
    start = time.perf_counter()
    jax.block_until_ready(call())
    calls = max(1, int(least_s / (time.perf_counter() - start)))
    best = float("inf")
    for _ in range(repetitions):
        start = time.perf_counter()
        for _ in range(calls):
            jax.block_until_ready(call())
        best = min(best, (time.perf_counter() - start) / calls)
    return best


def time_search(network: Network, params: Params, batch_size: int, config: SearchConfig) -> float:
    """Returns seconds per search of `batch_size` positions."""
    generator = np.random.default_rng(0)
    observations = generator.random((batch_size, network.config.observation_size), np.float32)
    legal = np.ones((batch_size, network.config.num_actions), bool)
    key = jax.random.PRNGKey(1)
    return best_seconds(lambda: search(network, params, key, observations, legal, config))


def time_update(network: Network, config: LearnerConfig) -> float:
    """Returns seconds per update."""
    generator = np.random.default_rng(0)
    rows, steps, actions = config.batch_size, config.segment_length, network.config.num_actions
    batch = Batch(
        observation=generator.random((rows, steps, network.config.observation_size), np.float32),
        legal=np.ones((rows, steps, actions), bool),
        action=generator.integers(0, actions, (rows, steps)).astype(np.int32),
        reward=generator.normal(0, 0.01, (rows, steps)).astype(np.float32),
        discount=np.ones((rows, steps), np.float32),
        policy=np.full((rows, steps, actions), 1 / actions, np.float32),
        value=np.zeros((rows, steps), np.float32),
        outcome=np.full((rows, steps, actions), np.nan, np.float32),
        valid=np.ones((rows, steps), bool),
        key=np.arange(rows, dtype=np.uint64),
        probability=np.full(rows, 1 / rows),
        table_size=rows,
    )
    update = make_update(network, config)
    state = init_state(network, make_optimiser(config), jax.random.PRNGKey(0))
    return best_seconds(lambda: update(state, batch))


if __name__ == "__main__":
    main()
