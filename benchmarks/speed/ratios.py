"""Compares actors, learner and replay with what each is built around, in one run: docs/results/speed.md.

    python -m benchmarks.speed.ratios [--seconds 5] [--lightzero PYTHON]

Rows that the file has are not measured again, so that a run may be stopped and repeated; `--again` measures them anew.
Rates are by the processor time of this process, since other work may run beside it. The peer is
LightZero's search (`lightzero.py`), on one thread, with the observations, actions, games, simulations and width of the
access game's actor; PYTHON is an interpreter that has LightZero from PyPI.
"""

import argparse
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np

from mallocmuzero.actors.search.search import search
from mallocmuzero.actors.self_play.config import ACCESS, RESIDENCY
from mallocmuzero.actors.self_play.threads import Threads
from mallocmuzero.env.workloads import load
from mallocmuzero.launch.config.config import TrainConfig, config_from_json
from mallocmuzero.launch.config.defaults import defaults_of
from mallocmuzero.launch.session.builders import make_actor
from mallocmuzero.learner.networks.network import Network
from mallocmuzero.replay.reverb.server import ReplayServer
from mallocmuzero.replay.segment import SegmentSpec

from ..common.json_lines import ROOT, Record, append, read_runs
from . import system
from .actor import Nowhere

RESULTS = ROOT / "docs" / "results" / "speed-ratios.jsonl"
WORKLOADS = ("tiny", "resnet50-b128", "bert-train-b8")
GAMES, SIMULATIONS = 64, 8
# The access game without branches, whose moves have rollouts for their exact outcomes.
WHOLE = "whole"


def config_of(game: str, workload: str) -> TrainConfig:
    """Returns the default settings of a game, with as many games and simulations for both."""
    values = {**defaults_of(RESIDENCY if game == RESIDENCY else ACCESS), "workloads": [workload]}
    values["actor"] = {**values["actor"], "games": GAMES}
    if game == WHOLE:
        values["actor"]["branch"] = {**values["actor"]["branch"], "share": 0.0}
    values["search"] = {**values["search"], "simulations": SIMULATIONS}
    return config_from_json(values, "the benchmark")


def actor_rates(game: str, workload: str, seconds: float) -> Record:
    """Returns moves per processor second of an actor and of its bare search, measured in turn."""
    config = config_of(game, workload)
    network = Network(config.network)
    params = network.init(jax.random.key(0))
    writers = [Nowhere() for _ in range(GAMES)]
    actor = make_actor(config, [load(workload)], network, writers=writers, seed=0)
    actor.set_parameters(params, 0)
    rng, spec = np.random.default_rng(0), config.segment_spec
    observations = rng.random((GAMES, spec.observation_size), np.float32)
    legal, key = np.ones((GAMES, spec.num_actions), np.bool_), jax.random.key(1)
    outcomes = np.full(legal.shape, np.nan, np.float32) if game == RESIDENCY else None

    def bare() -> int:
        found = search(network, params, key, observations, legal, config.search, outcomes)
        jax.device_get((found.action, found.action_weights))
        return GAMES

    def play() -> int:
        return actor.play(GAMES).moves

    playing, searching = Timed(play), Timed(bare)
    with games_timed() as games_s:
        mine, other = system.rates(seconds, playing, searching)
    parameters = sum(int(leaf.size) for leaf in jax.tree.leaves(params))
    return {
        "project": mine,
        "bare": other,
        "unit": "moves/s of processor",
        "games_s": games_s[0] / playing.units,
        "wall_ratio": playing.per_wall_second / searching.per_wall_second,
        "busy_cores": playing.processor_s / playing.wall_s,
        "parameters": parameters,
    }


class Timed:
    """A call that does some units of work and returns how many, and the time that it takes."""

    def __init__(self, call: Callable[[], int]) -> None:
        self._call = call
        self.units = 0
        self.processor_s = self.wall_s = 0.0

    def __call__(self) -> int:
        wall, processor = time.perf_counter(), time.process_time()
        units = self._call()
        self.wall_s += time.perf_counter() - wall
        self.processor_s += time.process_time() - processor
        self.units += units
        return units

    @property
    def per_wall_second(self) -> float:
        """Units per second by the clock on the wall."""
        return self.units / self.wall_s


@contextmanager
def games_timed() -> Iterator[list[float]]:
    """Counts, in the list's one place, the processor seconds of all work that a batch's threads share: its games, and
    the scoring of changes that are proposed to them."""
    spent, share, each = [0.0], Threads.share, Threads.each

    def timed(work: Callable[..., None]) -> Callable[..., None]:
        def call(*arguments: Any) -> None:
            began = time.process_time()
            work(*arguments)
            spent[0] += time.process_time() - began

        return call

    Threads.share, Threads.each = timed(share), timed(each)  # type: ignore[method-assign]
    try:
        yield spent
    finally:
        Threads.share, Threads.each = share, each  # type: ignore[method-assign]


def peer_rate(python: Path, seconds: float) -> Record:
    """Returns LightZero's moves per processor second beside the access game's bare search."""
    config = config_of(ACCESS, "tiny")
    spec = config.segment_spec
    sizes = (spec.observation_size, spec.num_actions, config.network.width, GAMES, SIMULATIONS, round(seconds))
    command = [str(python), str(Path(__file__).with_name("lightzero.py")), *map(str, sizes)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    peer = json.loads(done.stdout.strip().splitlines()[-1])
    own = actor_rates(ACCESS, "tiny", seconds)
    return {**own, "project": own["bare"], "bare": peer["moves_per_s"], "peer_parameters": peer["parameters"]}


def learner_rates(seconds: float) -> Record:
    """Returns updates per second of the learner, and bare."""
    mine, bare = system.learner_rates(seconds, 64)
    return {"project": mine, "bare": bare, "unit": "updates/s of processor"}


def replay_rates(what: str, seconds: float) -> Record:
    """Returns what the project's client and bare Reverb write or sample per second."""
    spec = SegmentSpec(config_of(ACCESS, "tiny").segment_spec.observation_size, 3, unroll_steps=5, td_steps=5, period=4)
    with ReplayServer(system.CONFIG, spec) as server:
        written = system.write_rates(seconds if what == "written" else 0.5, spec, server.address)
        mine, bare = written if what == "written" else system.sample_rates(seconds, spec, server.address, 64)
    return {"project": mine, "bare": bare, "unit": f"{'steps' if what == 'written' else 'segments'}/s of processor"}


def measure(row: str, arguments: argparse.Namespace) -> Record:
    """Measures one row by its name."""
    if row.startswith("actor"):
        _, game, workload = row.split()
        return actor_rates(game, workload, arguments.seconds)
    if row == "LightZero":
        return peer_rate(arguments.lightzero, arguments.seconds)
    if row == "learner":
        return learner_rates(arguments.seconds)
    return replay_rates(row.removeprefix("Reverb, "), arguments.seconds)


def main() -> None:
    """Measures the rows that the file lacks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("row", nargs="*", help="all by default")
    parser.add_argument("--seconds", type=float, default=5.0, help="time per figure")
    parser.add_argument("--lightzero", type=Path, metavar="PYTHON", help="an interpreter that has LightZero")
    parser.add_argument("--again", action="store_true", help="also the rows that the file has")
    arguments = parser.parse_args()
    rows = [f"actor {game} {workload}" for game in (RESIDENCY, WHOLE, ACCESS) for workload in WORKLOADS]
    rows += ["learner", "Reverb, written", "Reverb, sampled", *(["LightZero"] if arguments.lightzero else [])]
    done = {name for name, _ in read_runs([RESULTS], lambda record: record["row"])}
    for row in arguments.row or rows:
        if row not in done or arguments.again:
            found = measure(row, arguments)
            append(RESULTS, {"row": row, **found})
            print(
                f"{row}: {found['project']:,.0f} / {found['bare']:,.0f} = {found['project'] / found['bare']:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
