"""Compares learner and replay with what they are built around: the bare update, and bare Reverb.

    python -m benchmarks.speed.system [--seconds 5] [--batch-size 64]

The learner samples from the in-process replay, updates, and returns priorities. The bare update runs on one batch. Bare
Reverb takes rows that are made beforehand, and gives batches as its own data set does. All are measured in one run, in
turn, by the processor time of this process: the server has one of its own.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

from mallocmuzero.env.game.observation import GRID, OBSERVATION_SIZE
from mallocmuzero.learner.config import LearnerConfig
from mallocmuzero.learner.networks.network import Network, NetworkConfig
from mallocmuzero.learner.state import init_state
from mallocmuzero.learner.update import make_optimiser, make_update
from mallocmuzero.replay.config import ReplayConfig
from mallocmuzero.replay.local.replay import LocalReplay
from mallocmuzero.replay.reverb.client import ReverbReplay
from mallocmuzero.replay.reverb.lazy_import import import_reverb
from mallocmuzero.replay.reverb.server import ReplayServer
from mallocmuzero.replay.reverb.table import TABLE
from mallocmuzero.replay.segment import SegmentSpec, Step

CONFIG = ReplayConfig(capacity=5_000, min_size=1, samples_per_insert=1.0, error_buffer=1e12)
_STEPS = 2_000
_TURNS = 8


def random_steps(spec: SegmentSpec, count: int) -> list[Step]:
    """Returns steps as of a game; their observations are random, so that compression saves nothing."""
    rng = np.random.default_rng(0)
    policy = rng.dirichlet(np.ones(3)).astype(np.float32)
    return [
        Step(rng.random(spec.observation_size, np.float32), np.ones(3, bool), k % 3, 0.1, 1.0, policy, 0.5)
        for k in range(count)
    ]


def rates(seconds: float, mine: Callable[[], int], bare: Callable[[], int]) -> tuple[float, float]:
    """Returns units per processor second of two calls, which do some and return how many; they take turns."""
    calls = mine, bare
    done, spent = [0, 0], [0.0, 0.0]
    for call in calls:
        call()
    for _ in range(_TURNS):
        for place, call in enumerate(calls):
            began = time.process_time()
            while time.process_time() - began < seconds / _TURNS:
                done[place] += call()
            spent[place] += time.process_time() - began
    return done[0] / spent[0], done[1] / spent[1]


def learner_rates(seconds: float, batch_size: int) -> tuple[float, float]:
    """Returns updates per processor second: of the learner, and bare."""
    config = LearnerConfig(batch_size=batch_size)
    network = Network(NetworkConfig(observation_size=OBSERVATION_SIZE, grid=GRID))
    spec = SegmentSpec(OBSERVATION_SIZE, 3, config.unroll_steps, config.td_steps, period=1)
    replay = LocalReplay(CONFIG, spec, np.random.default_rng(0))
    writer = replay.writer()
    for step in random_steps(spec, _STEPS):
        writer.append(step)
    update = make_update(network, config)
    state = init_state(network, make_optimiser(config), jax.random.PRNGKey(0))
    batch = replay.sample(batch_size, 60.0)

    def learn() -> int:
        nonlocal state
        drawn = replay.sample(batch_size, 60.0)
        state, _, priorities = update(state, drawn)
        replay.update_priorities(drawn.key, np.asarray(priorities))
        return 1

    def bare() -> int:
        nonlocal state
        state, _, priorities = update(state, batch)
        jax.block_until_ready(priorities)
        return 1

    return rates(seconds, learn, bare)


def write_rates(seconds: float, spec: SegmentSpec, address: str) -> tuple[float, float]:
    """Returns steps per processor second that a writer of the project and one of Reverb write."""
    steps = random_steps(spec, _STEPS)
    rows = [spec.row(step) for step in steps]
    replay = ReverbReplay(address, CONFIG, spec)
    mine = replay.writer()
    bare = import_reverb().Client(address).trajectory_writer(num_keep_alive_refs=spec.length)
    written = in_flight = 0

    def write() -> int:
        for step in steps:
            mine.append(step)
        mine.flush(60.0)
        return len(steps)

    def write_bare() -> int:
        nonlocal written, in_flight
        for row in rows:
            bare.append(row)
            written += 1
            if written >= spec.length and (written - spec.length) % spec.period == 0:
                history = bare.history
                bare.create_item(TABLE, 1.0, {name: history[name][-spec.length :] for name in row})
                in_flight += 1
                if in_flight >= CONFIG.max_in_flight:
                    in_flight = CONFIG.max_in_flight // 2
                    bare.flush(block_until_num_items=in_flight)
        bare.flush()
        in_flight = 0
        return len(rows)

    found = rates(seconds, write, write_bare)
    bare.close()
    mine.close()
    replay.close()
    return found


def sample_rates(seconds: float, spec: SegmentSpec, address: str, batch_size: int) -> tuple[float, float]:
    """Returns segments per processor second that the project's client and Reverb's own data set give."""
    replay = ReverbReplay(address, CONFIG, spec)
    data = import_reverb().TrajectoryDataset.from_table_signature(
        address, TABLE, max_in_flight_samples_per_worker=batch_size, num_workers_per_iterator=1
    )
    batches: Iterator[Any] = data.batch(batch_size).as_numpy_iterator()
    mine = rates(seconds, lambda: len(replay.sample(batch_size, 60.0).key), lambda: len(next(batches).info.key))
    replay.close()
    return mine


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0, help="time per figure")
    parser.add_argument("--batch-size", type=int, default=64)
    arguments = parser.parse_args()
    spec = SegmentSpec(OBSERVATION_SIZE, 3, unroll_steps=5, td_steps=5, period=4)
    rows = [("learner, updates/s", *learner_rates(arguments.seconds, arguments.batch_size))]
    with ReplayServer(CONFIG, spec) as server:
        rows.append(("Reverb, steps/s written", *write_rates(arguments.seconds, spec, server.address)))
        rows.append(
            ("Reverb, segments/s sampled", *sample_rates(arguments.seconds, spec, server.address, arguments.batch_size))
        )
    table = Table(title=f"batch {arguments.batch_size}, observations of {OBSERVATION_SIZE} floats")
    for heading in ("", "project", "bare", "project / bare"):
        table.add_column(heading, justify="right")
    for name, mine, bare in rows:
        table.add_row(name, f"{mine:,.1f}", f"{bare:,.1f}", f"{mine / bare:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
