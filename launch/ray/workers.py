"""What runs in the Ray topology's processes. Plain classes: `ray_topology.py` makes Ray actors of them.

Every call returns within seconds, apart from compilation: waits for the replay end with a time-out and are reported.
"""

import os
import time
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from ...actors.evaluate.evaluate import Evaluation
from ...actors.self_play.actor import PlayReport, SelfPlayActor
from ...env.program.program import Program
from ...learner.networks.network import Network, Params
from ...learner.state import TrainingState
from ...replay.interface import ReplayTimeout
from ...replay.reverb.client import ReverbReplay
from ...replay.reverb.sharded import ShardedReplay, open_replay
from ..config.config import TrainConfig
from ..train.learning import evaluate_parameters, make_training_update
from .cluster import import_ray

_SAMPLE_TIMEOUT_S = 1.0
# Other processes of the machine go first.
_EVALUATOR_NICENESS = 5
# What a worker waits for: the replay, its next call, parameters on their way, its state being copied for a checkpoint.
FOR_REPLAY, TURN, PARAMETERS, SAVING = "replay", "turn", "parameters", "saving"


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
      waits: seconds waited since the last report, by cause.
      held: why the replay took no more, or None.
      state: where the actor stands now.
    """

    report: PlayReport
    waits: dict[str, float]
    held: str | None
    state: dict[str, Any]


@dataclass(frozen=True)
class Learned:
    """What a call of `LearnerWorker.learn` did.

    Attributes:
      step: updates made in all.
      updates: updates of this call.
      metrics: of the last one.
      waits: seconds waited since the last report, by cause.
      held: why the replay gave no batch, or None.
      publication: the parameters, if their version is due.
    """

    step: int
    updates: int
    metrics: dict[str, float]
    waits: dict[str, float]
    held: str | None
    publication: Publication | None


class _Waits:
    """Seconds that this worker has waited since they were last asked for, by cause."""

    def __init__(self, replay: ReverbReplay | ShardedReplay, side: str) -> None:
        self._replay, self._side = replay, side
        self._replay_s = 0.0
        self._since: dict[str, float] = {}
        self._returned_at = time.monotonic()

    def called(self) -> None:
        """At the beginning of a call: until now the worker waited for its turn."""
        self.add(TURN, time.monotonic() - self._returned_at)

    def returning(self) -> None:
        """At the end of a call."""
        self._returned_at = time.monotonic()

    def add(self, cause: str, seconds: float) -> None:
        """Adds seconds that were waited for this cause."""
        self._since[cause] = self._since.get(cause, 0.0) + seconds

    def take(self) -> dict[str, float]:
        """Returns the seconds since the last time by cause, those for the replay among them."""
        replay_s = self._replay.waited_s[self._side]
        self.add(FOR_REPLAY, replay_s - self._replay_s)
        self._replay_s = replay_s
        since, self._since = self._since, {}
        return since


class ActorWorker:
    """Plays games and writes them to the replay."""

    def begin(
        self, config: TrainConfig, programs: list[Program], address: str, seed: int, state: dict[str, Any] | None
    ) -> None:
        """Begins all games, or goes on where an earlier actor stood. Before anything else.

        Not the constructor: what goes wrong here shall reach the driver as what it is.
        """
        self._replay = ReverbReplay(address, config.replay.share(), config.segment_spec)
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
        self._waits = _Waits(self._replay, "insert")

    def play(self, moves: int, publication: Publication, lines: dict[str, tuple[float, list[int]]]) -> Played:
        """Makes about `moves` moves with the published parameters, fewer if the replay takes no more.

        `lines` are those of other actors that are better than what this one was told before.
        """
        self._waits.called()
        self._actor.offer_lines(lines)
        if publication.version != self._version:
            begin = time.monotonic()
            params: Params = import_ray().get(publication.reference[0])
            self._waits.add(PARAMETERS, time.monotonic() - begin)
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
        played = Played(report, self._waits.take(), held, self._actor.state())
        self._waits.returning()
        return played

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

    def __init__(self, config: TrainConfig, state: TrainingState, addresses: list[str]) -> None:
        self._config = config
        self._replay = open_replay(addresses, config.replay, config.segment_spec)
        self._update = make_training_update(config, Network(config.network))
        self._state: TrainingState = jax.device_put(state)
        self._step = int(state.step)
        self._waits = _Waits(self._replay, "sample")

    def publish(self) -> Publication:
        """Puts the parameters where everyone can read them."""
        return Publication(self._step, [import_ray().put(jax.device_get(self._state.params))])

    def learn(self, last_step: int | None) -> Learned:
        """Makes updates until the next version is due, `last_step` is reached, or the replay gives no batch."""
        self._waits.called()
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
        publication = None
        if self._step > before and self._step == target:
            begin = time.monotonic()
            publication = self.publish()
            self._waits.add(PARAMETERS, time.monotonic() - begin)
        learned = Learned(
            self._step,
            self._step - before,
            {name: float(value) for name, value in metrics.items()},
            self._waits.take(),
            held,
            publication,
        )
        self._waits.returning()
        return learned

    def state(self) -> TrainingState:
        """Returns the training state as NumPy arrays."""
        self._waits.called()
        begin = time.monotonic()
        state: TrainingState = jax.device_get(self._state)
        self._waits.add(SAVING, time.monotonic() - begin)
        self._waits.returning()
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
