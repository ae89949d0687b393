"""Measures the stop that a checkpoint makes: seconds in which actors cannot play, by size of the replay.

    python -m benchmarks.faults.checkpointing [--segments 2000 10000 40000]

On the topology `ray` a thread of the driver writes the checkpoint and actors go on, until the replay server, which
answers nobody while it writes its table, blocks them. So a writer appends steps as an actor does, and its longest
`append` is taken, while the replay is written and otherwise. In one process nothing plays while the replay and the
state of the learner are written, so the stop is the time of writing both. Observations are random numbers, which do not
compress; real ones write faster. Writes docs/results/checkpointing.json.

Then: python -m benchmarks.faults.page
"""

import argparse
import json
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mallocmuzero.launch.config.config import TrainConfig
from mallocmuzero.launch.run.code_version import code_version
from mallocmuzero.launch.session.builders import initial_state
from mallocmuzero.learner.checkpoints.checkpoint import Checkpoints
from mallocmuzero.learner.networks.network import Network
from mallocmuzero.replay.config import ReplayConfig
from mallocmuzero.replay.interface import Replay, ReplayTimeout, SegmentWriter
from mallocmuzero.replay.local.replay import LocalReplay
from mallocmuzero.replay.reverb.client import ReverbReplay
from mallocmuzero.replay.reverb.server import ReplayServer
from mallocmuzero.replay.segment import Step

from ..common.json_lines import ROOT

RESULTS = ROOT / "docs" / "results" / "checkpointing.json"
_TRAINING = TrainConfig(workloads=("-",))
_SPEC = _TRAINING.segment_spec
_EPISODE_STEPS = 500
# Seconds that the writer is watched without a checkpoint, and its pace, which is about that of a default actor.
_WATCH_S, _STEPS_PER_S = 5.0, 1000.0


class Games:
    """Endless games of random steps."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self._steps = [
            Step(rng.random(_SPEC.observation_size, np.float32), rng.random(_SPEC.num_actions) < 0.7, 0, 0.1, 0.997,
                 rng.dirichlet(np.ones(_SPEC.num_actions)).astype(np.float32), 0.5)
            for _ in range(997)
        ]  # fmt: skip
        self._count = 0

    def play(self, writer: SegmentWriter) -> None:
        """Appends the next step."""
        self._count += 1
        ends = self._count % _EPISODE_STEPS == 0
        step = self._steps[self._count % len(self._steps)]
        step = step._replace(discount=0.0) if ends else step
        while True:
            try:
                writer.append(step)
                break
            except ReplayTimeout:  # an actor that is blocked tries again
                continue
        if ends:
            writer.end_episode()


def settings(segments: int) -> ReplayConfig:
    """Returns the default settings for a replay of another size, without a rate limit."""
    return replace(_TRAINING.replay, capacity=segments, min_size=1, error_buffer=1e12)


def fill(replay: Replay, games: Games, segments: int) -> SegmentWriter:
    """Fills a replay; returns its writer."""
    writer = replay.writer()
    while replay.stats().size < segments:
        for _ in range(1000):
            games.play(writer)
        writer.flush(60)
    return writer


def beside(segments: int, folder: Path) -> dict[str, Any]:
    """Returns the record of a Reverb server with actors beside it."""
    games = Games()
    with ReplayServer(settings(segments), _SPEC) as server:
        replay = ReverbReplay(server.address, settings(segments), _SPEC)
        writer = fill(replay, games, segments)
        appends: list[tuple[float, float]] = []
        ended = threading.Event()

        def play() -> None:
            while not ended.is_set():
                begin = time.monotonic()
                games.play(writer)
                appends.append((begin, time.monotonic() - begin))
                time.sleep(1 / _STEPS_PER_S)

        thread = threading.Thread(target=play)
        thread.start()
        time.sleep(_WATCH_S)
        begin = time.monotonic()
        replay.checkpoint(folder)
        end = time.monotonic()
        time.sleep(1.0)
        ended.set()
        thread.join()
        writer.close()
        replay.close()
    usual = max(seconds for at, seconds in appends if at + seconds < begin)
    meanwhile = max(seconds for at, seconds in appends if at < end and at + seconds > begin)
    return _row("ray", segments, folder, end - begin, usual, meanwhile)


def in_turn(segments: int, folder: Path) -> dict[str, Any]:
    """Returns the record of the in-process replay and the state of the learner."""
    games = Games()
    replay = LocalReplay(settings(segments), _SPEC, np.random.default_rng(0))
    fill(replay, games, segments)
    network = Network(_TRAINING.network)
    state = initial_state(_TRAINING, network)
    begin = time.monotonic()
    replay.checkpoint(folder / "replay")
    Checkpoints(folder / "learner", network).save(state)
    seconds = time.monotonic() - begin
    return _row("process", segments, folder, seconds, 0.0, seconds)


def _row(topology: str, segments: int, folder: Path, write_s: float, usual_s: float, stop_s: float) -> dict[str, Any]:
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return {
        "topology": topology,
        "segments": segments,
        "mib": round(size / 2**20, 1),
        "write_s": round(write_s, 2),
        "usual_s": round(usual_s, 3),
        "stop_s": round(stop_s, 3),
        "code": code_version()["commit"],
    }


def main() -> None:
    """Measures all sizes, and writes the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--segments", type=int, nargs="+", default=[2_000, 10_000, _TRAINING.replay.capacity])
    parser.add_argument("--results", type=Path, default=RESULTS)
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="mallocmuzero-") as folder:
        for measure in (beside, in_turn):
            for segments in args.segments:
                rows.append(measure(segments, Path(folder) / measure.__name__ / str(segments)))
                print(rows[-1], flush=True)
    args.results.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
