"""The topology `ray`: self-play actors around a Reverb server, one learner, and this process, which drives them.

The driver keeps at most one call under way per worker. Pace is the replay's affair alone: a worker that it holds
returns soon and says so. Order of stopping: actors, learner, checkpoint, replay server, Ray.
"""

import logging
import os
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from ..env.errors import UserError
from ..learner.checkpoint import Checkpoints
from ..learner.networks import Params
from ..learner.state import TrainingState
from ..replay.client import ReverbReplay
from ..replay.interface import ReplayTimeout
from ..replay.server import ReplayServer
from .checkpoints import ACTORS, LEARNER, REPLAY
from .learning import starting_state
from .ray_cluster import Cluster, import_ray
from .ray_workers import ActorWorker, EvaluatorWorker, Learned, LearnerWorker, Played, Publication
from .seeds import Role, seed_of
from .session import Session, read_actor_states, write_actor_states

_log = logging.getLogger(__name__)
_WAIT_S = 1.0
_STATS_PERIOD_S = 2.0
_START_TIMEOUT_S = 300.0
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
        driver = _Driver(session, cluster, stack)
        try:
            driver.run()
        except _Lost as lost:
            driver.rescue(lost)
        return driver.end()


class _Lost(Exception):
    """A part without which training cannot go on is gone."""

    def __init__(self, role: str, reason: str) -> None:
        super().__init__(f"the {role} {reason}")
        self.role = role


@dataclass
class _Call:
    """A call under way."""

    role: str
    index: int
    begin: float
    warned: bool = False


class _Driver:
    def __init__(self, session: Session, cluster: Cluster, stack: ExitStack) -> None:
        self._session, self._config = session, session.config
        self._ray: Any = import_ray()
        self._stack = stack
        config, resumed = self._config, session.resumed
        session.doing("starting the replay server")
        restore_from = None
        if resumed is not None and (resumed.folder / REPLAY).exists():
            restore_from = resumed.folder / REPLAY
        self._server = ReplayServer(config.replay, config.segment_spec, host=cluster.host, restore_from=restore_from)
        stack.callback(self._server.stop)
        self._replay = ReverbReplay(self._server.address, config.replay, config.segment_spec, server=self._server)
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
        self._calls: dict[Any, _Call] = {}
        session.doing("starting the learner and the actors")
        self._learner = self._start(LearnerWorker, "learner", config, self._state, self._server.address)
        self._publication: Publication = self._get(self._learner.publish.remote(), "learner", _START_TIMEOUT_S)
        self._evaluator: Any = None
        self._unevaluated: Publication | None = None
        if config.schedule.evaluate_period:
            self._evaluator = self._start(EvaluatorWorker, "evaluator", config, session.programs)
            self._unevaluated = self._publication if resumed is None else None
        self._actors = [self._start_actor(index) for index in range(config.actors)]
        self._starved_since: float | None = None
        self._stats_at = 0.0
        session.doing("")

    def run(self) -> None:
        """Trains until the session is finished. Raises _Lost."""
        session = self._session
        session.start()
        self._learn()
        while not session.finished:
            self._evaluate_if_due()
            self._wait(_WAIT_S, again=True)
            self._check_replay()
            if session.checkpoint_due:
                self._save(self._learner_state())
            session.report()

    def end(self) -> Params:
        """Stops the workers in order, saves, and returns the last parameters."""
        session = self._session
        session.doing("stopping")
        self._drain()
        self._close_actors()
        self._state = self._learner_state()
        self._get(self._learner.close.remote(), "learner", _STOP_TIMEOUT_S)
        self._save(self._state)
        session.doing("")
        return jax.device_put(self._state.params)

    def rescue(self, lost: _Lost) -> None:
        """Saves what is left. Raises UserError, always."""
        session = self._session
        _log.error("%s", lost)
        kept = "the best mappings are in its folder `best`"
        if lost.role != "learner":
            state = self._learner_state()
            # Without the replay: a resumed run fills a new one.
            self._save(state, with_replay=False)
            kept = f"update {int(state.step)} and the best mappings are saved, what was to be replayed is lost"
        raise UserError(f"{lost}; {kept}; `--run-dir {session.run.path} --resume` goes on from the last checkpoint")

    # Starting.

    def _start(self, worker: type, role: str, *arguments: Any) -> Any:
        """Returns a new Ray actor. Failures show in its first call."""
        settings = self._config.ray
        threads = {"actor": settings.actor_threads, "learner": settings.learner_threads}.get(
            role, settings.evaluator_threads
        )
        cpus = {"actor": settings.actor_cpus, "learner": settings.learner_cpus}.get(role, settings.evaluator_cpus)
        gpus = settings.learner_gpus if role == "learner" else 0
        environment = _environment(threads, gpus > 0)
        handle = (
            self._ray.remote(worker)
            .options(num_cpus=cpus, num_gpus=gpus, max_restarts=0, runtime_env={"env_vars": environment})
            .remote(*arguments)
        )
        self._stack.callback(self._kill, handle)
        return handle

    def _start_actor(self, index: int) -> Any:
        config = self._config
        # A seed of its own for every start: an actor that replaces a dead one must not repeat its games.
        seed = seed_of(config.seed, Role.ACTOR, index + config.actors * self._begun[index])
        self._begun[index] += 1
        self._told[index] = {}
        handle = self._start(ActorWorker, "actor")
        begun = handle.begin.remote(
            config, self._session.programs, self._server.address, seed, self._actor_states[index]
        )
        self._calls[begun] = _Call("actor", index, time.monotonic())
        return handle

    def _kill(self, handle: Any) -> None:
        self._ray.kill(handle)

    # Calls.

    def _play(self, index: int) -> None:
        told = self._told[index]
        lines = {
            name: line for name, line in self._session.best.lines().items() if line[0] < told.get(name, float("inf"))
        }
        told.update({name: latency_s for name, (latency_s, _) in lines.items()})
        call = self._actors[index].play.remote(self._config.schedule.slice_moves, self._publication, lines)
        self._calls[call] = _Call("actor", index, time.monotonic())

    def _learn(self) -> None:
        self._calls[self._learner.learn.remote(self._config.steps)] = _Call("learner", 0, time.monotonic())

    def _evaluate_if_due(self) -> None:
        if self._unevaluated is None or any(call.role == "evaluator" for call in self._calls.values()):
            return
        publication, self._unevaluated = self._unevaluated, None
        self._calls[self._evaluator.evaluate.remote(publication)] = _Call("evaluator", 0, time.monotonic())

    def _wait(self, timeout_s: float, again: bool) -> None:
        """Handles calls that are ready, waiting for the first; `again` issues the next ones. Raises _Lost."""
        ready, _ = self._ray.wait(list(self._calls), num_returns=1, timeout=timeout_s)
        if ready:  # Whatever else is ready goes with it, so that nobody waits for a turn.
            ready, _ = self._ray.wait(list(self._calls), num_returns=len(self._calls), timeout=0)
        for reference in ready:
            call = self._calls.pop(reference)
            try:
                result = self._ray.get(reference)
            except self._ray.exceptions.RayError as error:
                self._failed(call, error, again)
                continue
            if call.role == "actor":
                if result is not None:  # None says that it has begun.
                    self._played(call.index, result)
                if again:
                    self._play(call.index)
            elif call.role == "learner":
                self._learned(result)
                if again and not self._session.finished:
                    self._learn()
            else:
                version, evaluations = result
                self._session.evaluated(evaluations, version)
        self._warn_of_slow_calls()

    def _played(self, index: int, played: Played) -> None:
        self._session.played(played.report)
        self._session.blocked("actors", played.blocked_s)
        self._actor_states[index] = played.state

    def _learned(self, learned: Learned) -> None:
        session = self._session
        period = self._config.schedule.evaluate_period
        before = session.counters.step
        session.learned(learned.updates, learned.metrics)
        session.blocked("learner", learned.blocked_s)
        if learned.publication is not None:
            self._publication = learned.publication
            if period and learned.step // period > before // period:
                self._unevaluated = learned.publication
        if learned.held is None or learned.updates:
            self._starved_since = None
        elif self._starved_since is None:
            self._starved_since = time.monotonic()
        elif time.monotonic() - self._starved_since > self._config.ray.call_timeout_s:
            raise _Lost("replay", f"has given no batch for {self._config.ray.call_timeout_s:.0f} s: {learned.held}")

    def _failed(self, call: _Call, error: Exception, again: bool) -> None:
        """A worker died, or its code raised. Raises _Lost, or UserError where the user can mend it."""
        cause = getattr(error, "cause", None)
        if isinstance(cause, UserError) and self._server.alive:
            raise cause
        _log.error("%s %d: %s", call.role, call.index, error)
        reason = str(error).strip().splitlines()[-1]
        if not self._server.alive:
            raise _Lost("replay server", f"died: {self._last_words()}")
        if call.role == "learner":
            raise _Lost("learner", f"died ({reason})")
        if not again:
            return
        self._restarts += 1
        if self._restarts > self._config.ray.restarts:
            raise _Lost(call.role, f"died once too often ({reason}); ray.restarts is {self._config.ray.restarts}")
        self._session.say(f"{call.role} {call.index} died ({reason}); starting another")
        if call.role == "actor":
            self._kill(self._actors[call.index])
            self._actors[call.index] = self._start_actor(call.index)
        else:
            self._kill(self._evaluator)
            self._evaluator = self._start(EvaluatorWorker, "evaluator", self._config, self._session.programs)

    def _warn_of_slow_calls(self) -> None:
        limit = self._config.ray.call_timeout_s
        for call in self._calls.values():
            if not call.warned and time.monotonic() - call.begin > limit:
                call.warned = True
                self._session.say(f"{call.role} {call.index} has been busy with one call for {limit:.0f} s")

    def _get(self, reference: Any, role: str, timeout_s: float) -> Any:
        """Returns the result of a call. Raises _Lost or UserError."""
        try:
            return self._ray.get(reference, timeout=timeout_s)
        except self._ray.exceptions.GetTimeoutError as error:
            raise _Lost(role, f"does not answer within {timeout_s:.0f} s") from error
        except self._ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None)
            if isinstance(cause, UserError):
                raise cause from error
            raise _Lost(role, f"died ({str(error).strip().splitlines()[-1]})") from error

    # The replay and the checkpoint.

    def _check_replay(self) -> None:
        if not self._server.alive:
            raise _Lost("replay server", f"died: {self._last_words()}")
        if time.monotonic() - self._stats_at >= _STATS_PERIOD_S:
            self._stats_at = time.monotonic()
            try:
                self._session.replay_stats(self._replay.stats())
            except ReplayTimeout as error:
                _log.warning("%s", error)

    def _last_words(self) -> str:
        lines = self._server.log.strip().splitlines()
        return lines[-1] if lines else "it left no message"

    def _learner_state(self) -> TrainingState:
        state: TrainingState = self._get(self._learner.state.remote(), "learner", self._config.ray.call_timeout_s)
        return state

    def _save(self, state: TrainingState, with_replay: bool = True) -> None:
        session = self._session
        session.doing("saving")
        with session.checkpoints.writing() as (folder, entries):
            Checkpoints(folder / LEARNER, session.network, keep=1).save(state)
            if with_replay:
                self._checkpoint_replay(folder)
            write_actor_states(folder / ACTORS, [s for s in self._actor_states if s is not None])
            session.save_into(folder, entries)
            # The learner may be ahead of what it has reported.
            entries["counters"]["step"] = int(np.asarray(state.step))
        session.saved()
        session.doing("")

    def _checkpoint_replay(self, folder: Any) -> None:
        try:
            self._replay.checkpoint(folder / REPLAY, timeout_s=_START_TIMEOUT_S)
        except (ReplayTimeout, RuntimeError) as error:
            raise _Lost("replay server", f"cannot save ({error})") from error

    # Stopping.

    def _drain(self) -> None:
        """Waits for the calls under way; no others follow."""
        deadline = time.monotonic() + _STOP_TIMEOUT_S
        for reference in [r for r, call in self._calls.items() if call.role == "evaluator"]:
            # An evaluation may take long, and nothing depends on it.
            del self._calls[reference]
            self._kill(self._evaluator)
        while self._calls and time.monotonic() < deadline:
            self._wait(_WAIT_S, again=False)
        for call in self._calls.values():
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


def _environment(threads: int, accelerator: bool) -> dict[str, str]:
    """Environment of a worker, in force before it imports anything."""
    variables = {"TF_CPP_MIN_LOG_LEVEL": "3", "GRPC_VERBOSITY": "ERROR"}
    flags = os.environ.get("XLA_FLAGS", "")
    if not accelerator:
        variables["JAX_PLATFORMS"] = "cpu"
    if threads:
        variables |= {"OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)}
        if threads == 1:
            flags += " --xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    if flags.strip():
        variables["XLA_FLAGS"] = flags.strip()
    return variables
