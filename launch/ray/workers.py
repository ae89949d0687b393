"""The workers of the Ray topology: actor, learner and evaluator, plain classes that `fleet.py` turns into Ray actors.

Every call returns within seconds, apart from compilation: a wait for the replay ends with a time-out and is reported.
"""

import os
import time
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from ...actors.evaluate.evaluate import Evaluation
from ...actors.self_play.loop import PlayReport
from ...env.compiled.prepare import prepare
from ...env.program.program import Program
from ...learner.networks.network import Network, Params
from ...learner.state import TrainingState
from ...replay.interface import ReplayTimeout
from ...replay.reverb.client import ReverbReplay
from ...replay.reverb.sharded import ShardedReplay, open_replay
from ..config.config import TrainConfig
from ..session.builders import evaluate_parameters, make_actor, make_training_update
from ..session.compiled import compile_evaluation, compile_play, run_update, training_kernels
from ..start.collector import collect_seldom
from .cluster import import_ray

_SAMPLE_TIMEOUT_S = 1.0
# Other processes of the machine go first.
_EVALUATOR_NICENESS = 5
# Causes of waits: the replay, the worker's next call, parameters on their way, a checkpoint's copy of the state.
FOR_REPLAY, TURN, PARAMETERS, SAVING = "replay", "turn", "parameters", "saving"


@dataclass(frozen=True)
class Publication:
    """One version of the parameters.

    Attributes:
      version: the learner's step.
      reference: a list with the Ray reference to the parameters; inside a list Ray hands on the reference, not its
        content.
    """

    version: int
    reference: list[Any]


@dataclass(frozen=True)
class Played:
    """The result of `ActorWorker.play`.

    Attributes:
      report: moves and episodes.
      waits: seconds waited since the last report, by cause.
      held: why the replay took no more, or None.
      state: the actor's state (`Actor.state`).
    """

    report: PlayReport
    waits: dict[str, float]
    held: str | None
    state: dict[str, Any]


@dataclass(frozen=True)
class Learned:
    """The result of `LearnerWorker.learn`.

    Attributes:
      step: updates since the run began.
      updates: updates of this call.
      metrics: metrics of the last update.
      waits: seconds waited since the last report, by cause.
      held: why the replay gave no batch, or None.
      publication: the parameters, if a version was due.
    """

    step: int
    updates: int
    metrics: dict[str, float]
    waits: dict[str, float]
    held: str | None
    publication: Publication | None


class WaitTimer:
    """Adds up the seconds that a worker waits, by cause, until they are reported.

    Args:
      replay: the worker's replay, which counts the waits for itself.
      side: the worker's side of the replay: `insert` or `sample`.
    """

    def __init__(self, replay: ReverbReplay | ShardedReplay, side: str) -> None:
        self._replay, self._side = replay, side
        self._replay_s = 0.0
        self._unreported_s: dict[str, float] = {}
        self._returned_at: float | None = None

    def called(self) -> None:
        """Marks the beginning of a call. The worker has waited for its turn since the last call ended; before the first
        call it was being started."""
        if self._returned_at is not None:
            self.add(TURN, time.monotonic() - self._returned_at)

    def returning(self) -> None:
        """Marks the end of a call."""
        self._returned_at = time.monotonic()

    def add(self, cause: str, seconds: float) -> None:
        """Adds a wait."""
        self._unreported_s[cause] = self._unreported_s.get(cause, 0.0) + seconds

    def take(self) -> dict[str, float]:
        """Returns the seconds since the last report by cause, waits for the replay included, and starts anew."""
        replay_s = self._replay.waited_s[self._side]
        self.add(FOR_REPLAY, replay_s - self._replay_s)
        self._replay_s = replay_s
        waits, self._unreported_s = self._unreported_s, {}
        return waits


class ActorWorker:
    """Plays games and writes them to the replay."""

    def begin(
        self, config: TrainConfig, programs: list[Program], address: str, seed: int, state: dict[str, Any] | None
    ) -> None:
        """Compiles, then begins all games or continues from the state of an earlier actor. To be called first.

        Not the constructor: Ray would hide a UserError raised there behind an error of its own.
        """
        collect_seldom()
        prepare(training_kernels(config), helped=False)
        compile_play(config)
        self._replay = ReverbReplay(address, config.replay.share(), config.segment_spec)
        self._writers = [self._replay.writer() for _ in range(config.actor.games)]
        self._actor = make_actor(config, programs, Network(config.network), writers=self._writers, seed=seed)
        if state is not None:
            self._actor.restore(state)
        self._version = -1
        self._waits = WaitTimer(self._replay, "insert")

    def play(self, moves: int, publication: Publication, lines: dict[str, tuple[float, list[int]]]) -> Played:
        """Makes about `moves` moves with the published parameters, fewer if the replay takes no more.

        Args:
          moves: moves of all games together.
          publication: the parameters to play with.
          lines: by program, latency in seconds and moves of a line of play that another actor found, better than any
            sent to this actor before.
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
            # The moves count now; the next report brings the episodes that ended with them.
            seconds = time.perf_counter() - begin
            report = PlayReport(self._actor.moves - before, self._version, seconds, 0.0, 0.0, seconds)
            held = str(error)
        played = Played(report, self._waits.take(), held, self._actor.state())
        self._waits.returning()
        return played

    def close(self, flush_s: float) -> None:
        """Flushes completed segments to the replay for at most `flush_s` seconds, and closes the writers."""
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

    def begin(self, config: TrainConfig, state: TrainingState, addresses: list[str]) -> None:
        """Takes the state to train from and the replay servers. To be called first."""
        collect_seldom()
        self._config = config
        self._replay = open_replay(addresses, config.replay, config.segment_spec)
        self._update = make_training_update(config, Network(config.network))
        self._state: TrainingState = jax.device_put(state)
        self._step = int(state.step)
        self._waits = WaitTimer(self._replay, "sample")

    def prepare(self) -> None:
        """Compiles the update."""
        run_update(self._config, self._update, self._state)

    def publish(self) -> Publication:
        """Puts the parameters into Ray's object store."""
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
    """Evaluates published parameters."""

    def __init__(self, config: TrainConfig, programs: list[Program]) -> None:
        os.nice(_EVALUATOR_NICENESS)
        collect_seldom()
        self._config = config
        self._network = Network(config.network)
        self._programs = programs

    def prepare(self) -> None:
        """Compiles the evaluation."""
        prepare(training_kernels(self._config), helped=False)
        programs = min(len(self._programs), self._config.schedule.evaluate_most)
        compile_evaluation(self._config, programs, self._config.schedule.evaluate_simulations)

    def evaluate(self, publication: Publication) -> tuple[int, list[Evaluation]]:
        """Returns the version of the parameters and their evaluations."""
        params: Params = jax.device_put(import_ray().get(publication.reference[0]))
        return publication.version, evaluate_parameters(self._config, self._network, params, self._programs)
