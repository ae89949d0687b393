"""Workers without search or gradients, to measure the throughput of everything else.

A light actor writes recorded steps at a given pace instead of searching and playing; a light learner draws batches,
returns priorities and publishes parameters at a given pace instead of computing gradients. Driver, calls, replay
server, rate limiter and the transfer of parameters are the real ones.
"""

import os
import time
from typing import Any

import numpy as np

from mallocmuzero.actors.self_play.loop import PlayReport
from mallocmuzero.launch.config.config import TrainConfig
from mallocmuzero.launch.ray.cluster import import_ray
from mallocmuzero.launch.ray.workers import (
    PARAMETERS,
    ActorWorker,
    Learned,
    LearnerWorker,
    Played,
    Publication,
    WaitTimer,
)
from mallocmuzero.learner.networks.network import Params
from mallocmuzero.learner.state import TrainingState
from mallocmuzero.replay.interface import ReplayTimeout
from mallocmuzero.replay.reverb.client import ReverbReplay
from mallocmuzero.replay.segment import Step

# Environment variables by which the driver configures its workers.
STEPS_FILE, MOVES_PER_S, UPDATES_PER_S = "MM_LIGHT_STEPS", "MM_LIGHT_MOVES_PER_S", "MM_LIGHT_UPDATES_PER_S"


def save_steps(path: str, steps: list[Step]) -> None:
    """Writes steps to a file."""
    np.savez(path, **{name: np.stack([np.asarray(getattr(step, name)) for step in steps]) for name in Step._fields})


def load_steps(path: str) -> list[Step]:
    """Reads steps from a file."""
    with np.load(path, allow_pickle=False) as columns:
        parts = [columns[name] for name in Step._fields]
    return [
        Step(observation, legal, int(action), float(reward), float(discount), policy, float(value))
        for observation, legal, action, reward, discount, policy, value in zip(*parts, strict=True)
    ]


class LightActor(ActorWorker):
    """An actor that writes recorded steps, a step of each game in turn."""

    def begin(
        self, config: TrainConfig, programs: list[Any], address: str, seed: int, state: dict[str, Any] | None
    ) -> None:
        """Connects to the replay and reads the recorded steps."""
        self._replay = ReverbReplay(address, config.replay.share(), config.segment_spec)
        self._writers = [self._replay.writer() for _ in range(config.actor.games)]
        self._steps = load_steps(os.environ[STEPS_FILE])
        self._pace = float(os.environ[MOVES_PER_S])
        self._next = [seed % len(self._steps)] * len(self._writers)
        self._version = -1
        self._waits = WaitTimer(self._replay, "insert")

    def play(self, moves: int, publication: Publication, lines: dict[str, tuple[float, list[int]]]) -> Played:
        """Writes `moves` steps in the time that a real actor would take."""
        self._waits.called()
        begin = time.monotonic()
        if publication.version != self._version:
            _: Params = import_ray().get(publication.reference[0])
            self._version = publication.version
            self._waits.add(PARAMETERS, time.monotonic() - begin)
        made, held, rounds = 0, None, -(-moves // len(self._writers))
        try:
            for _ in range(rounds):
                for index, writer in enumerate(self._writers):
                    step = self._steps[self._next[index] % len(self._steps)]
                    writer.append(step)
                    if step.discount == 0:
                        writer.end_episode()
                    self._next[index] += 1
                    made += 1
        except ReplayTimeout as error:
            held = str(error)
        # The call takes as long as the moves of a real actor; waits for the replay are part of that time.
        time.sleep(max(0.0, begin + made / self._pace - time.monotonic()))
        seconds = time.monotonic() - begin
        played = Played(PlayReport(made, self._version, seconds, 0.0, 0.0, seconds), self._waits.take(), held, {})
        self._waits.returning()
        return played


class LightLearner(LearnerWorker):
    """A learner that draws batches and publishes its first parameters."""

    def begin(self, config: TrainConfig, state: TrainingState, addresses: list[str]) -> None:
        """See `LearnerWorker.begin`."""
        super().begin(config, state, addresses)
        pace, unchanged = float(os.environ[UPDATES_PER_S]), np.ones(config.learner.batch_size)
        self._due = time.monotonic()

        def update(state: TrainingState, batch: Any) -> tuple[TrainingState, dict[str, float], np.ndarray]:
            self._due = max(self._due + 1 / pace, time.monotonic() - 1.0)
            time.sleep(max(0.0, self._due - time.monotonic()))
            return state, {"loss": 0.0}, unchanged

        self._update: Any = update

    def learn(self, last_step: int | None) -> Learned:
        """See `LearnerWorker.learn`."""
        return super().learn(last_step)
