"""What runs in the Ray topology's processes. Plain classes: `ray_topology.py` makes Ray actors of them.

Every call returns within seconds, apart from compilation: waits for the replay end with a time-out and are reported.
"""

import os
import time
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from ..actors.evaluate import Evaluation
from ..actors.self_play import PlayReport, SelfPlayActor
from ..env.program import Program
from ..learner.networks import Network, Params
from ..learner.state import TrainingState
from ..learner.update import make_update
from ..replay.client import ReverbReplay
from ..replay.interface import ReplayTimeout
from .config import TrainConfig
from .learning import evaluate_parameters
from .ray_cluster import import_ray

_SAMPLE_TIMEOUT_S = 1.0
# Other processes of the machine go first.
_EVALUATOR_NICENESS = 5


@dataclass(frozen=True)
class Publication:
    """A version of the parameters.

    Attributes:
      version: the learner's step.
      reference: where the parameters are, in a list, so that Ray hands on the reference and not the content.
    """

    version: int
    reference: list[Any]


@dataclass(frozen=True)
class Played:
    """What a call of `ActorWorker.play` did.

    Attributes:
      report: moves and episodes.
      blocked_s: seconds waited for the replay.
      held: why the replay took no more, or None.
      state: where the actor stands now.
    """

    report: PlayReport
    blocked_s: float
    held: str | None
    state: dict[str, Any]


@dataclass(frozen=True)
class Learned:
    """What a call of `LearnerWorker.learn` did.

    Attributes:
      step: updates made in all.
      updates: updates of this call.
      metrics: of the last one.
      blocked_s: seconds waited for the replay.
      held: why the replay gave no batch, or None.
      publication: the parameters, if their version is due.
    """

    step: int
    updates: int
    metrics: dict[str, float]
    blocked_s: float
    held: str | None
    publication: Publication | None


class _Blocked:
    """The seconds that this process has waited for its replay."""

    def __init__(self, replay: ReverbReplay) -> None:
        self._replay = replay
        self._last = 0.0

    def since(self, name: str) -> float:
        """Returns the seconds since the last call; later, if the server is too busy to be asked."""
        try:
            now: float = getattr(self._replay.stats(), name)
        except ReplayTimeout:
            return 0.0
        since, self._last = now - self._last, now
        return since


class ActorWorker:
    """Plays games and writes them to the replay."""

    def begin(
        self, config: TrainConfig, programs: list[Program], address: str, seed: int, state: dict[str, Any] | None
    ) -> None:
        """Begins all games, or goes on where an earlier actor stood. Before anything else.

        Not the constructor: what goes wrong here shall reach the driver as what it is.
        """
        self._replay = ReverbReplay(address, config.replay, config.segment_spec)
        self._writers = [self._replay.writer() for _ in range(config.actor.games)]
        self._actor = SelfPlayActor(
            programs,
            Network(config.network),
            config.search,
            config.actor,
            self._writers,
            seed,
            config.segment_spec.length,
        )
        if state is not None:
            self._actor.restore(state)
        self._version = -1
        self._blocked = _Blocked(self._replay)

    def play(self, moves: int, publication: Publication, lines: dict[str, tuple[float, list[int]]]) -> Played:
        """Makes about `moves` moves with the published parameters, fewer if the replay takes no more.

        `lines` are those of other actors that are better than what this one was told before.
        """
        self._actor.offer_lines(lines)
        if publication.version != self._version:
            params: Params = import_ray().get(publication.reference[0])
            self._actor.set_parameters(jax.device_put(params), publication.version)
            self._version = publication.version
        before, begin, held = self._actor.moves, time.perf_counter(), None
        try:
            report = self._actor.play(moves)
        except ReplayTimeout as error:
            # The moves are made; their episodes come with the next report.
            seconds = time.perf_counter() - begin
            report = PlayReport(self._actor.moves - before, self._version, seconds, 0.0, 0.0, seconds)
            held = str(error)
        return Played(report, self._blocked.since("insert_blocked_s"), held, self._actor.state())

    def close(self, flush_s: float) -> None:
        """Lets finished segments into the replay, as far as it takes them in time, and ends the writers."""
        deadline = time.monotonic() + flush_s
        for writer in self._writers:
            try:
                writer.flush(max(0.001, deadline - time.monotonic()))
            except ReplayTimeout:
                break
        for writer in self._writers:
            writer.close()
        self._replay.close()


class LearnerWorker:
    """Learns from the replay and publishes parameters."""

    def __init__(self, config: TrainConfig, state: TrainingState, address: str) -> None:
        self._config = config
        self._replay = ReverbReplay(address, config.replay, config.segment_spec)
        self._update = make_update(Network(config.network), config.learner)
        self._state: TrainingState = jax.device_put(state)
        self._step = int(state.step)
        self._blocked = _Blocked(self._replay)

    def publish(self) -> Publication:
        """Puts the parameters where everyone can read them."""
        return Publication(self._step, [import_ray().put(jax.device_get(self._state.params))])

    def learn(self, last_step: int | None) -> Learned:
        """Makes updates until the next version is due, `last_step` is reached, or the replay gives no batch."""
        before, held = self._step, None
        metrics: dict[str, Any] = {}
        period = self._config.schedule.publish_period
        target = before + period - before % period
        if last_step is not None:
            target = min(target, last_step)
        while self._step < target:
            try:
                batch = self._replay.sample(self._config.learner.batch_size, _SAMPLE_TIMEOUT_S)
            except ReplayTimeout as error:
                held = str(error)
                break
            self._state, metrics, priorities = self._update(self._state, batch)
            self._replay.update_priorities(batch.key, np.asarray(priorities))
            self._step += 1
        publication = self.publish() if self._step > before and self._step == target else None
        return Learned(
            self._step,
            self._step - before,
            {name: float(value) for name, value in metrics.items()},
            self._blocked.since("sample_blocked_s"),
            held,
            publication,
        )

    def state(self) -> TrainingState:
        """Returns the training state as NumPy arrays."""
        state: TrainingState = jax.device_get(self._state)
        return state

    def close(self) -> None:
        """Ends sampling."""
        self._replay.close()


class EvaluatorWorker:
    """Plays with published parameters, without exploring."""

    def __init__(self, config: TrainConfig, programs: list[Program]) -> None:
        os.nice(_EVALUATOR_NICENESS)
        self._config = config
        self._network = Network(config.network)
        self._programs = programs

    def evaluate(self, publication: Publication) -> tuple[int, list[Evaluation]]:
        """Returns the version and its evaluations."""
        params: Params = jax.device_put(import_ray().get(publication.reference[0]))
        return publication.version, evaluate_parameters(self._config, self._network, params, self._programs)
