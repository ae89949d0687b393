"""Compares the in-process replay with the Reverb server: steps written and segments sampled per second.

    python -m benchmarks.speed.replay [--seconds 3] [--writers 8]

Loads: writing alone, sampling alone, and both at once from two threads, which share the interpreter lock of this
process. The rate limiter is set so wide that it never blocks a thread.
"""

import argparse
import threading
import time
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table

from mallocmuzero.replay.config import ReplayConfig
from mallocmuzero.replay.interface import Replay, SegmentWriter
from mallocmuzero.replay.local.replay import LocalReplay
from mallocmuzero.replay.reverb.client import ReverbReplay
from mallocmuzero.replay.reverb.server import ReplayServer
from mallocmuzero.replay.segment import SegmentSpec, Step

CONFIG = ReplayConfig(capacity=20_000, min_size=1, samples_per_insert=1.0, error_buffer=1e12)
SPEC = SegmentSpec(observation_size=400, num_actions=3, unroll_steps=5, td_steps=5, period=4)
EPISODE_STEPS = 500


def random_steps(count: int) -> list[Step]:
    """Returns steps as of a game; their observations are random, so that compression saves nothing."""
    rng = np.random.default_rng(0)
    return [
        Step(rng.random(SPEC.observation_size, np.float32), rng.random(3) < 0.7, int(rng.integers(3)), 0.1, 0.997,
             rng.dirichlet(np.ones(3)).astype(np.float32), 0.5)
        for _ in range(count)
    ]  # fmt: skip


def write(writers: list[SegmentWriter], steps: list[Step], until: Callable[[], bool]) -> int:
    """Writes games in turn until the end; returns the number of steps, all of them in the table."""
    written = 0
    while not until():
        index = written // len(writers)
        step = steps[index % len(steps)]
        if index % EPISODE_STEPS == EPISODE_STEPS - 1:
            step = step._replace(discount=0.0)
        for writer in writers:
            writer.append(step)
            if step.discount == 0:
                writer.end_episode()
        written += len(writers)
    for writer in writers:
        writer.flush(60)
    return written


def draw(replay: Replay, batch_size: int, until: Callable[[], bool]) -> int:
    """Samples and returns priorities, as a learner does; returns the number of segments."""
    drawn = 0
    priorities = np.linspace(0.1, 2, batch_size)
    while not until():
        batch = replay.sample(batch_size, 60)
        replay.update_priorities(batch.key, priorities)
        drawn += batch_size
    return drawn


def measure(replay: Replay, seconds: float, games: int, batch_size: int) -> dict[str, float]:
    """Returns operations per second under each load."""
    steps, rates = random_steps(2000), {}
    writers = [replay.writer() for _ in range(games)]
    # With a full table, every load pays for removal too.
    write(writers, steps, lambda: replay.stats().size == CONFIG.capacity)
    draw(replay, batch_size, _after(0.5))

    def timed(name: str, work: Callable[[], int]) -> None:
        start = time.perf_counter()
        count = work()
        rates[name] = count / (time.perf_counter() - start)

    timed("steps/s written, alone", lambda: write(writers, steps, _after(seconds)))
    timed("segments/s sampled, alone", lambda: draw(replay, batch_size, _after(seconds)))
    both = threading.Thread(
        target=timed, args=("steps/s written, both", lambda: write(writers, steps, _after(seconds)))
    )
    both.start()
    timed("segments/s sampled, both", lambda: draw(replay, batch_size, _after(seconds)))
    both.join()
    for writer in writers:
        writer.close()
    return rates


def _after(seconds: float) -> Callable[[], bool]:
    end = time.perf_counter() + seconds
    return lambda: time.perf_counter() >= end


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0, help="length of each load")
    parser.add_argument("--writers", type=int, default=8, help="games written at once")
    parser.add_argument("--batch-size", type=int, default=64)
    args = parser.parse_args()
    arguments = args.seconds, args.writers, args.batch_size
    local = measure(LocalReplay(CONFIG, SPEC, np.random.default_rng(0)), *arguments)
    with ReplayServer(CONFIG, SPEC) as server:
        replay = ReverbReplay(server.address, CONFIG, SPEC)
        reverb = measure(replay, *arguments)
        replay.close()
    table = Table(
        title=f"observations of {SPEC.observation_size} floats, segments of {SPEC.length}, batch {args.batch_size}"
    )
    for heading in ("", "in-process", "Reverb", "in-process / Reverb"):
        table.add_column(heading, justify="right")
    for name, rate in local.items():
        table.add_row(name, f"{rate:,.0f}", f"{reverb[name]:,.0f}", f"{rate / reverb[name]:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
