"""The parts of the topology `process`: learner, replay and actor in one process, each called in turn."""

import sys
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
from flax import serialization

from ...learner.checkpoints.checkpoint import Checkpoints
from ...learner.networks.network import Params
from ...learner.update import Update
from ...replay.local.replay import LocalReplay
from ..run.checkpoints import ACTORS, LEARNER, PUBLISHED, REPLAY
from ..session.builders import Role, evaluate_parameters, make_actor, make_training_update, seed_of, starting_state
from ..session.session import Session
from ..session.snapshot import read_actor_states, write_actor_states

# Unreachable: a sample is asked for only when the rate limiter allows it.
_SAMPLE_TIMEOUT_S = 60.0


class ProcessTrainer:
    """Learner, replay and actor of a run, begun anew or restored from the run's checkpoint.

    Args:
      session: the run.
      update: the learner's update, compiled; None to make one.

    Attributes:
      replay: the segments.
      state: the training state after the last update.
    """

    def __init__(self, session: Session, update: Update | None = None) -> None:
        config = session.config
        self._session, self._config = session, config
        # While the actor plays, nobody samples: what the rate limiter holds back has to wait, however much it is.
        self.replay = LocalReplay(
            replace(config.replay, max_in_flight=sys.maxsize),
            config.segment_spec,
            np.random.default_rng(seed_of(config.seed, Role.REPLAY)),
        )
        self.state = starting_state(config, session.network, session.resumed)
        self._update = make_training_update(config, session.network) if update is None else update
        # The actor's parameters lag behind the learner's: a new version comes every `publish_period` updates.
        self._published: Params = self.state.params
        self._version = 0
        resumed = session.resumed
        if resumed is None:
            writers = [self.replay.writer() for _ in range(config.actor.games)]
        else:
            self.replay.restore(resumed.folder / REPLAY)
            writers = self.replay.open_writers
            self._published, self._version = _read_published(resumed.folder / PUBLISHED)
        seed = seed_of(config.seed, Role.ACTOR)
        self._actor = make_actor(config, session.programs, session.network, writers=writers, seed=seed)
        self._actor.set_parameters(self._published, self._version)
        if resumed is not None:
            (state,) = read_actor_states(resumed.folder / ACTORS)
            self._actor.restore(state)

    def play(self) -> None:
        """Plays a slice of self-play; completed segments go to the replay."""
        self._session.played(self._actor.play(self._config.schedule.slice_moves))

    def learn(self) -> None:
        """Makes one update; publishes and evaluates the parameters where that is due."""
        session, schedule = self._session, self._config.schedule
        batch = self.replay.sample(self._config.learner.batch_size, _SAMPLE_TIMEOUT_S)
        self.state, metrics, priorities = self._update(self.state, batch)
        self.replay.update_priorities(batch.key, np.asarray(priorities))
        session.learned(1, metrics)
        step = session.counters.step
        if step % schedule.publish_period == 0:
            self._published, self._version = self.state.params, step
            self._actor.set_parameters(self._published, self._version)
        if session.evaluation_due:
            self.evaluate()

    def evaluate(self) -> None:
        """Evaluates the learner's parameters."""
        session = self._session
        session.doing("evaluating")
        session.evaluated(
            evaluate_parameters(self._config, session.network, self.state.params, session.programs),
            session.counters.step,
        )
        session.doing("")

    def save(self) -> None:
        """Writes a checkpoint. Raises CannotSave."""
        session = self._session
        session.doing("saving")
        snapshot = session.snapshot()
        with session.checkpoints.writing() as (folder, entries):
            Checkpoints(folder / LEARNER, session.network, keep=1).save(self.state)
            self.replay.checkpoint(folder / REPLAY)
            write_actor_states(folder / ACTORS, [self._actor.state()])
            _write_published(folder / PUBLISHED, self._published, self._version)
            snapshot.write(folder, entries)
        session.saved()
        session.doing("")


def _write_published(path: Path, params: Params, version: int) -> None:
    path.write_bytes(serialization.msgpack_serialize({"version": version, "params": jax.device_get(params)}))


def _read_published(path: Path) -> tuple[Params, int]:
    content = serialization.msgpack_restore(path.read_bytes())
    return content["params"], int(content["version"])
