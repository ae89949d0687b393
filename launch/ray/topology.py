"""The topology `ray`: self-play actors around a Reverb server, one learner, and this process, which drives them.

The driver keeps at most one call under way per worker. Pace is the replay's affair alone: a worker that it holds
returns soon and says so. Order of stopping: actors, learner, checkpoint, replay server, Ray.
"""

import logging
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax

from ...env.errors import UserError
from ...learner.networks.network import Params
from ...learner.state import TrainingState
from ...replay.interface import ReplayTimeout
from ...replay.reverb.servers import ReplayServers
from ...replay.reverb.sharded import open_replay
from ..config.ray import ACTOR, EVALUATOR, LEARNER
from ..run.checkpoints import ACTORS, REPLAY, CannotSave
from ..train.learning import starting_state
from ..train.seeds import Role, seed_of
from ..train.session import Session, Snapshot, read_actor_states
from .calls import NODE, STATE, Call, Calls, Lost, last_line, result_of
from .cluster import Cluster, import_ray
from .nodes import alive, without_room
from .processes import Processes
from .replay_counts import ReplayCounts
from .saving import SaveReplay, Saving, copy_replay, write_checkpoint
from .start import reserve_replay, start_worker
from .workers import ActorWorker, EvaluatorWorker, Learned, LearnerWorker, Played, Publication

_log = logging.getLogger(__name__)
_WAIT_S = 1.0
_STATS_PERIOD_S = 2.0
_CHECKPOINT_TIMEOUT_S = 300.0
_STOP_TIMEOUT_S = 60.0
_FLUSH_S = 2.0


def train_on_ray(session: Session, cluster: Cluster) -> Params:
    """Trains until the session is finished, saves, stops every process it started, and returns the last parameters.

    Raises:
      UserError: the learner or the replay server died; what could be saved has been.
    """
    # The accelerators belong to the learner's process.
    jax.config.update("jax_platforms", "cpu")
    with ExitStack() as stack:
        try:
            driver = _Driver(session, cluster, stack)
        except Lost as lost:
            raise UserError(f"{lost} before training began; {session.run.log_file} says more") from lost
        try:
            driver.run()
            return driver.end()
        except Lost as lost:
            raise driver.rescue(lost) from lost
        except driver.ray_error as error:
            raise driver.rescue(Lost("Ray cluster", f"died ({last_line(error)})")) from error


class _Driver:
    def __init__(self, session: Session, cluster: Cluster, stack: ExitStack) -> None:
        self._session, self._config = session, session.config
        self._ray: Any = import_ray()
        self._stack = stack
        # What Ray itself raises: a worker is dead, or the cluster.
        self.ray_error: type[Exception] = self._ray.exceptions.RayError
        self._processes = Processes()
        config, resumed = self._config, session.resumed
        session.doing("starting the replay server")
        for line in without_room(alive(self._ray), config.ray, config.actors):
            session.say(line)
        reserved = reserve_replay(self._ray, config.ray)
        if reserved is not None:
            stack.callback(self._kill, reserved)
        restore_from = None
        if resumed is not None and (resumed.folder / REPLAY).exists():
            restore_from = resumed.folder / REPLAY
        self._servers = ReplayServers(config.replay, config.segment_spec, host=cluster.host, restore_from=restore_from)
        stack.callback(self._servers.stop)
        self._replay = open_replay(self._servers.addresses, config.replay, config.segment_spec)
        stack.callback(self._replay.close)
        self._state: TrainingState = jax.device_get(starting_state(config, session.network, resumed))
        self._actor_states: list[dict[str, Any] | None] = [None] * config.actors
        if resumed is not None:
            # A smaller number of actors than before leaves some lines of play unfinished, a larger one begins new ones.
            for index, state in enumerate(read_actor_states(resumed.folder / ACTORS)[: config.actors]):
                self._actor_states[index] = state
        self._begun = [0] * config.actors
        # Seconds of the best line of each program that an actor has been told of.
        self._told: list[dict[str, float]] = [{} for _ in range(config.actors)]
        self._restarts = 0
        self._calls = Calls(config.ray)
        self._saving: Saving | None = None
        session.doing("starting the learner and the actors")
        self._learner = self._start(LearnerWorker, LEARNER, config, self._state, self._servers.addresses)
        self._publication: Publication = result_of(self._learner.publish.remote(), LEARNER, config.ray.start_timeout_s)
        self._evaluator: Any = None
        self._unevaluated: Publication | None = None
        if config.schedule.evaluate_period:
            self._evaluator = self._start(EvaluatorWorker, EVALUATOR, config, session.programs)
            self._unevaluated = self._publication if resumed is None else None
        self._actors = [self._start_actor(index) for index in range(config.actors)]
        self._starved_since: float | None = None
        self._stats_at = 0.0
        self._counts = ReplayCounts(None if resumed is None else resumed.manifest)
        session.doing("")

    def run(self) -> None:
        """Trains until the session is finished. Raises Lost."""
        session = self._session
        self._learn()
        self._await_play()
        while not session.finished:
            self._turn()
            session.save_if_due(self._begin_save)
            self._end_save(0.0)
            session.report()

    def _await_play(self) -> None:
        """Holds the clock until an actor has played: on a new machine they compile the game first. Raises Lost."""
        session, steps = self._session, self._config.steps
        session.doing("compiling the game, which takes minutes on a new machine")
        while not any(self._calls.proven(ACTOR, index) for index in range(self._config.actors)):
            if session.stop or (steps is not None and session.counters.step >= steps):
                break
            self._turn()
            session.start()
            session.show()
        session.start()
        session.doing("")

    def _turn(self) -> None:
        """Waits for what is ready, and goes on with it. Raises Lost."""
        self._evaluate_if_due()
        self._wait(_WAIT_S, again=True)
        self._check_replay()

    def end(self) -> Params:
        """Stops the workers in order, saves, and returns the last parameters."""
        session = self._session
        session.doing("stopping")
        self._drain()
        self._end_save(_CHECKPOINT_TIMEOUT_S)
        self._close_actors()
        self._state = self._learner_state()
        result_of(self._learner.close.remote(), LEARNER, _STOP_TIMEOUT_S)
        self._save(self._state, self._checkpoint_replay)
        session.doing("")
        return jax.device_put(self._state.params)

    def rescue(self, lost: Lost) -> UserError:
        """Saves what is left. Returns what to tell the user."""
        session = self._session
        _log.error("%s", lost)
        kept = "the best mappings are in its folder `best`"
        try:
            self._end_save(_STOP_TIMEOUT_S)
            if lost.role not in (LEARNER, NODE):
                state = self._learner_state()
                # Without the replay: a resumed run goes on with that of the last checkpoint.
                self._save(state, lambda folder: copy_replay(session.checkpoints, folder))
                kept = f"update {int(state.step)} and the best mappings are saved"
        except (Lost, UserError) as error:
            _log.error("nothing more could be saved: %s", error)
        return UserError(f"{lost}; {kept}; `--run-dir {session.run.name} --resume` goes on from the last checkpoint")

    # Starting.

    def _start(self, worker: type, role: str, *arguments: Any) -> Any:
        """Returns a new Ray actor. Failures show in its first call."""
        handle = start_worker(self._ray, self._config.ray, role, worker, *arguments)
        self._processes.watch(handle)
        self._stack.callback(self._kill, handle)
        return handle

    def _start_actor(self, index: int) -> Any:
        config = self._config
        # A seed of its own for every start: an actor that replaces a dead one must not repeat its games.
        seed = seed_of(config.seed, Role.ACTOR, index + config.actors * self._begun[index])
        self._begun[index] += 1
        self._told[index] = {}
        self._calls.begins(ACTOR, index)
        handle = self._start(ActorWorker, ACTOR)
        begun = handle.begin.remote(
            config, self._session.programs, self._servers.address_of(index), seed, self._actor_states[index]
        )
        self._calls.add(begun, ACTOR, index)
        return handle

    def _kill(self, handle: Any) -> None:
        self._processes.kill(handle)

    # Calls.

    def _play(self, index: int) -> None:
        told = self._told[index]
        lines = self._session.best.lines(told)
        told.update({name: latency_s for name, (latency_s, _) in lines.items()})
        call = self._actors[index].play.remote(self._config.schedule.slice_moves, self._publication, lines)
        self._calls.add(call, ACTOR, index)

    def _learn(self) -> None:
        self._calls.add(self._learner.learn.remote(self._config.steps), LEARNER)

    def _evaluate_if_due(self) -> None:
        if self._unevaluated is None or self._calls.under_way(EVALUATOR):
            return
        publication, self._unevaluated = self._unevaluated, None
        self._calls.add(self._evaluator.evaluate.remote(publication), EVALUATOR)

    def _wait(self, timeout_s: float, again: bool) -> None:
        """Handles calls that are ready, waiting for the first; `again` issues the next ones. Raises Lost."""
        ready, _ = self._ray.wait(self._calls.references, num_returns=1, timeout=timeout_s)
        if ready:  # Whatever else is ready goes with it, so that nobody waits for a turn.
            ready, _ = self._ray.wait(self._calls.references, num_returns=len(self._calls), timeout=0)
        for reference in ready:
            call = self._calls.pop(reference)
            try:
                result = self._ray.get(reference)
            except self._ray.exceptions.RayError as error:
                self._failed(call, error, again)
                continue
            if call.role == ACTOR:
                if result is not None:  # None says that it has begun.
                    self._played(call.index, result)
                if again:
                    self._play(call.index)
            elif call.role == LEARNER:
                self._learned(result)
                if again and not self._session.finished:
                    self._learn()
            elif call.role == STATE:
                if again:
                    self._save_beside(result)
            else:
                version, evaluations = result
                self._session.evaluated(evaluations, version)
                self._calls.has_worked(EVALUATOR)
        self._end_slow_calls()

    def _played(self, index: int, played: Played) -> None:
        self._session.played(played.report)
        self._session.waited("actors", played.waits)
        self._actor_states[index] = played.state
        self._calls.has_worked(ACTOR, index)

    def _learned(self, learned: Learned) -> None:
        session = self._session
        period = self._config.schedule.evaluate_period
        before = session.counters.step
        session.learned(learned.updates, learned.metrics)
        session.waited(LEARNER, learned.waits)
        if learned.publication is not None:
            self._publication = learned.publication
            if period and learned.step // period > before // period:
                self._unevaluated = learned.publication
        if learned.updates:
            self._calls.has_worked(LEARNER)
        if learned.held is None or learned.updates or self._starting_actors:
            self._starved_since = None
        elif self._starved_since is None:
            self._starved_since = time.monotonic()
        elif time.monotonic() - self._starved_since > self._config.ray.call_timeout_s:
            raise Lost("replay", f"has given no batch for {self._config.ray.call_timeout_s:.0f} s: {learned.held}")

    def _failed(self, call: Call, error: Exception, again: bool) -> None:
        """A worker died, or its code raised. Raises Lost, or UserError where the user can mend it."""
        cause = getattr(error, "cause", None)
        if isinstance(cause, UserError) and self._servers.alive:
            raise cause
        _log.error("%s %d: %s", call.role, call.index, error)
        reason = last_line(error)
        if not self._servers.alive:
            raise Lost("replay server", f"died: {self._last_words()}")
        if call.role in (LEARNER, STATE):
            if isinstance(error, self._ray.exceptions.ActorUnavailableError):
                raise Lost(NODE, f"is out of reach: its raylet died, or the network is cut ({reason})")
            raise Lost(LEARNER, f"died ({reason})")
        if not again:
            return
        self._restarts += 1
        self._session.restarted(call.role)
        if self._restarts > self._config.ray.restarts:
            raise Lost(call.role, f"died once too often ({reason}); ray.restarts is {self._config.ray.restarts}")
        self._session.say(f"{call.role} {call.index} died ({reason}); starting another")
        if call.role == ACTOR:
            self._kill(self._actors[call.index])
            self._actors[call.index] = self._start_actor(call.index)
        else:
            self._kill(self._evaluator)
            self._calls.begins(EVALUATOR)
            self._evaluator = self._start(EvaluatorWorker, EVALUATOR, self._config, self._session.programs)

    @property
    def _starting_actors(self) -> bool:
        """Whether there are actors that have not played yet."""
        return not all(self._calls.proven(ACTOR, index) for index in range(self._config.actors))

    def _end_slow_calls(self) -> None:
        """Ends workers that do not answer: their calls then fail, and they are replaced as if they had died."""
        for call in self._calls.overdue():
            self._session.say(
                f"{call.role} {call.index} has not answered for {self._calls.limit_s(call):.0f} s; ending it"
            )
            if call.role == ACTOR:
                self._kill(self._actors[call.index])
            else:
                self._kill(self._evaluator if call.role == EVALUATOR else self._learner)

    # The replay and the checkpoint.

    def _check_replay(self) -> None:
        if not self._servers.alive:
            raise Lost("replay server", f"died: {self._last_words()}")
        # The server answers nobody while it writes a checkpoint.
        if self._saving is None and time.monotonic() - self._stats_at >= _STATS_PERIOD_S:
            self._stats_at = time.monotonic()
            try:
                self._session.replay_stats(self._counts.of(self._replay.stats()))
            except ReplayTimeout as error:
                _log.warning("%s", error)

    def _last_words(self) -> str:
        lines = self._servers.log.strip().splitlines()
        return f"{self._servers.end}; its last line was {lines[-1]!r}" if lines else self._servers.end

    def _learner_state(self) -> TrainingState:
        state: TrainingState = result_of(self._learner.state.remote(), LEARNER, self._config.ray.call_timeout_s)
        return state

    def _begin_save(self) -> None:
        """Asks the learner for its state; once it is there, `_save_beside` writes it."""
        if self._saving is None and not self._calls.under_way(STATE):
            self._calls.add(self._learner.state.remote(), STATE)

    def _save_beside(self, state: TrainingState) -> None:
        """Writes a checkpoint while training goes on."""
        session = self._session
        try:
            snapshot = self._snapshot()
        except CannotSave as error:
            session.not_saved(error)
            return
        self._saving = Saving(
            session.checkpoints, session.network, state, self._positions, snapshot, self._checkpoint_replay
        )

    def _end_save(self, timeout_s: float) -> None:
        """Takes note of a checkpoint that is written, or could not be; waits so long for it. Raises Lost."""
        saving, session = self._saving, self._session
        if saving is None or not saving.wait(timeout_s):
            return
        self._saving = None
        try:
            saving.result()
        except CannotSave as error:
            session.not_saved(error)
        else:
            session.saved()

    def _save(self, state: TrainingState, replay: SaveReplay) -> None:
        """Writes a checkpoint while nothing else goes on. Raises CannotSave, or Lost."""
        session = self._session
        session.doing("saving")
        write_checkpoint(session.checkpoints, session.network, state, self._positions, self._snapshot(), replay)
        session.saved()
        session.doing("")

    def _snapshot(self) -> Snapshot:
        snapshot = self._session.snapshot()
        return replace(snapshot, entries={**snapshot.entries, **self._counts.entry})

    @property
    def _positions(self) -> list[dict[str, Any]]:
        return [state for state in self._actor_states if state is not None]

    def _checkpoint_replay(self, folder: Path) -> None:
        try:
            self._replay.checkpoint(folder, timeout_s=_CHECKPOINT_TIMEOUT_S)
        except (ReplayTimeout, RuntimeError) as error:
            raise Lost("replay server", f"cannot save ({error})") from error

    # Stopping.

    def _drain(self) -> None:
        """Waits for the calls under way; no others follow."""
        deadline = time.monotonic() + _STOP_TIMEOUT_S
        # An evaluation may take long, and nothing depends on it.
        if self._calls.drop(EVALUATOR):
            self._kill(self._evaluator)
        while self._calls and time.monotonic() < deadline:
            self._wait(_WAIT_S, again=False)
        for call in self._calls:
            self._session.say(f"{call.role} {call.index} did not stop within {_STOP_TIMEOUT_S:.0f} s")

    def _close_actors(self) -> None:
        calls = [actor.close.remote(_FLUSH_S) for actor in self._actors]
        ready, late = self._ray.wait(calls, num_returns=len(calls), timeout=_STOP_TIMEOUT_S)
        for reference in ready:
            try:
                self._ray.get(reference)
            except self._ray.exceptions.RayError as error:
                _log.warning("an actor did not close: %s", error)
        if late:
            _log.warning("%d actors did not close within %.0f s", len(late), _STOP_TIMEOUT_S)
