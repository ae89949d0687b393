"""The topology `process`: actor, replay and learner take turns in one process, and repeat bit for bit."""

from pathlib import Path

import jax
import numpy as np
from flax import serialization

from ...actors.self_play.actor import SelfPlayActor
from ...learner.checkpoints.checkpoint import Checkpoints
from ...learner.networks.network import Params
from ...replay.local.replay import LocalReplay
from ..run.checkpoints import ACTORS, LEARNER, PUBLISHED, REPLAY
from .learning import evaluate_parameters, make_training_update, starting_state
from .seeds import Role, seed_of
from .session import Session, read_actor_states, write_actor_states

# The limiter lets one side go on at any time, so that nobody ever waits this long.
_SAMPLE_TIMEOUT_S = 60.0


def train_in_process(session: Session) -> Params:
    """Trains until the session is finished, saves, and returns the last parameters.

    Whose turn it is depends on the replay alone, and everything random on the seed: runs of equal length are equal,
    also when one of them was killed and resumed.
    """
    trainer = _Trainer(session)
    if session.resumed is None and session.config.schedule.evaluate_period:
        trainer.evaluate()
    session.start()
    while not session.finished:
        trainer.turn()
        session.save_if_due(trainer.save)
        session.report()
    trainer.save()
    return trainer.state.params


class _Trainer:
    def __init__(self, session: Session) -> None:
        config = session.config
        self._session, self._config = session, config
        self._replay = LocalReplay(
            config.replay, config.segment_spec, np.random.default_rng(seed_of(config.seed, Role.REPLAY))
        )
        self.state = starting_state(config, session.network, session.resumed)
        self._published: Params = self.state.params
        self._version = 0
        resumed = session.resumed
        if resumed is None:
            writers = [self._replay.writer() for _ in range(config.actor.games)]
        else:
            self._replay.restore(resumed.folder / REPLAY)
            writers = self._replay.open_writers
            self._published, self._version = _read_published(resumed.folder / PUBLISHED)
        self._actor = SelfPlayActor(
            session.programs,
            session.network,
            config.search,
            config.actor,
            writers,
            seed_of(config.seed, Role.ACTOR),
            config.segment_spec.length,
        )
        self._actor.set_parameters(self._published, self._version)
        if resumed is not None:
            (state,) = read_actor_states(resumed.folder / ACTORS)
            self._actor.restore(state)
        self._update = make_training_update(config, session.network)

    def turn(self) -> None:
        """One update if the replay allows it, else a slice of self-play."""
        if self._replay.can_sample(self._config.learner.batch_size):
            self._learn()
        else:
            self._session.played(self._actor.play(self._config.schedule.slice_moves))
        self._session.replay_stats(self._replay.stats())

    def _learn(self) -> None:
        session, schedule = self._session, self._config.schedule
        batch = self._replay.sample(self._config.learner.batch_size, _SAMPLE_TIMEOUT_S)
        self.state, metrics, priorities = self._update(self.state, batch)
        self._replay.update_priorities(batch.key, np.asarray(priorities))
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
        """Writes a checkpoint."""
        session = self._session
        session.doing("saving")
        snapshot = session.snapshot()
        with session.checkpoints.writing() as (folder, entries):
            Checkpoints(folder / LEARNER, session.network, keep=1).save(self.state)
            self._replay.checkpoint(folder / REPLAY)
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
