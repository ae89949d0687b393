"""The workers of a Ray run as the driver sees them: the fleet starts, calls, replaces and ends them."""

import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from ...learner.state import TrainingState
from ...replay.reverb.servers import ReplayServers
from ..config.ray import ACTOR, EVALUATOR, LEARNER, RayConfig
from ..run.checkpoints import ACTORS
from ..session.builders import Role, seed_of
from ..session.session import Session
from ..session.snapshot import read_actor_states
from .calls import STATE, Call, Calls, result_of
from .cluster import import_ray
from .processes import Processes
from .workers import ActorWorker, EvaluatorWorker, LearnerWorker, Publication

_log = logging.getLogger(__name__)
# Seconds in which an actor may still flush its segments to the replay when the run ends.
_FLUSH_S = 2.0
# Bits of an actor's index in what its seed is derived from; the number of its starts follows.
_INDEX_BITS = 32


class Fleet:
    """Actors, learner and evaluator; at most one call is under way per worker.

    Their processes start with the fleet and import what they need, while the replay servers start; `begin` then gives
    them work.

    Args:
      session: the run.
      stack: ends the workers.

    Attributes:
      calls: the calls under way.
      actor_states: the last known state of each actor, or None.
    """

    def __init__(self, session: Session, stack: ExitStack) -> None:
        self._session, self._config, self._stack = session, session.config, stack
        self._ray: Any = import_ray()
        self._processes = Processes()
        self.calls = Calls(self._config.ray, lambda role, index: self._processes.is_there(self._worker(role, index)))
        count = self._config.actors
        self.actor_states: list[dict[str, Any] | None] = [None] * count
        if session.resumed is not None:
            # With fewer actors than before some lines of play stay unfinished; with more, new ones begin.
            for index, state in enumerate(read_actor_states(session.resumed.folder / ACTORS)[:count]):
                self.actor_states[index] = state
        # Times that each actor has been started.
        self._starts = [0] * count
        # By actor: the latency in seconds of the best line of each program that has been sent to it.
        self._told: list[dict[str, float]] = [{} for _ in range(count)]
        self._servers: ReplayServers  # once they have started
        self._learner: Any = self._start(LearnerWorker, LEARNER)
        self._actors: list[Any] = [self._start(ActorWorker, ACTOR) for _ in range(count)]
        self._evaluator: Any = self._start_evaluator() if self._config.schedule.evaluate_period else None

    # Starting and ending.

    def begin(self, servers: ReplayServers, state: TrainingState) -> Publication:
        """Has all workers begin; returns the learner's first parameters while the other workers still compile.

        Args:
          servers: the replay that actors write to and the learner samples from.
          state: the state to train from.

        Raises:
          Lost: the learner did not begin.
        """
        self._servers = servers
        begun = self._learner.begin.remote(self._config, state, servers.addresses)
        for index in range(len(self._actors)):
            self._begin_actor(index)
        if self._evaluator is not None:
            self._begin_evaluator()
        result_of(begun, LEARNER, self._config.ray.start_timeout_s)
        publication: Publication = result_of(self._learner.publish.remote(), LEARNER, self._config.ray.call_timeout_s)
        return publication

    def _start_evaluator(self) -> Any:
        return self._start(EvaluatorWorker, EVALUATOR, self._config, self._session.programs)

    def _begin_evaluator(self) -> None:
        self.calls.begins(EVALUATOR)
        self.calls.add(self._evaluator.prepare.remote(), EVALUATOR)

    def _begin_actor(self, index: int) -> None:
        """Has an actor begin, or another one in its place go on from the last known state."""
        config = self._config
        # Every start has a seed of its own, whatever the number of actors was before a resume. It counts only without a
        # state, which brings its own random state: what the dead actor drew since its last report is drawn again.
        seed = seed_of(config.seed, Role.ACTOR, index + (self._starts[index] << _INDEX_BITS))
        self._starts[index] += 1
        self._told[index] = {}
        self.calls.begins(ACTOR, index)
        address, state = self._servers.address_of(index), self.actor_states[index]
        begun = self._actors[index].begin.remote(config, self._session.programs, address, seed, state)
        self.calls.add(begun, ACTOR, index)

    def replace(self, role: str, index: int) -> None:
        """Ends an actor or the evaluator, if it still runs, and starts another."""
        self.end(role, index)
        if role == ACTOR:
            self._actors[index] = self._start(ActorWorker, ACTOR)
            self._begin_actor(index)
        else:
            self._evaluator = self._start_evaluator()
            self._begin_evaluator()

    def end(self, role: str, index: int = 0) -> None:
        """Ends a worker; its calls under way then fail."""
        self._processes.kill(self._worker(role, index))

    def _worker(self, role: str, index: int) -> Any:
        if role == ACTOR:
            return self._actors[index]
        return self._evaluator if role == EVALUATOR else self._learner

    def close_actors(self, timeout_s: float) -> None:
        """Has the actors that are there flush their segments and close."""
        calls = [actor.close.remote(_FLUSH_S) for actor in self._actors if self._processes.is_there(actor)]
        if not calls:  # Ray does not wait for nothing.
            return
        ready, late = self._ray.wait(calls, num_returns=len(calls), timeout=timeout_s)
        for reference in ready:
            try:
                self._ray.get(reference)
            except self._ray.exceptions.RayError as error:
                _log.warning("an actor did not close: %s", error)
        if late:
            _log.warning("%d actors did not close within %.0f s", len(late), timeout_s)

    def close_learner(self, timeout_s: float) -> None:
        """Has the learner end its sampling. Raises Lost."""
        result_of(self._learner.close.remote(), LEARNER, timeout_s)

    def _start(self, worker: type, role: str, *arguments: Any) -> Any:
        """Returns a new Ray actor of the class `worker`. Failures surface in its first call."""
        settings = self._config.ray
        options = settings.options(role)
        if role == ACTOR:
            # Actors spread over the nodes, so that the loss of one node does not take them all.
            options["scheduling_strategy"] = "SPREAD"
        remote = self._ray.remote(worker).options(
            **options, max_restarts=0, runtime_env={"env_vars": _environment(settings, role)}
        )
        handle = remote.remote(*arguments)
        self._processes.watch(handle)
        self._stack.callback(self._processes.kill, handle)
        return handle

    # Calls.

    def play(self, index: int, publication: Publication) -> None:
        """Has an actor play a slice with these parameters; sends it better lines of play that others found."""
        told = self._told[index]
        lines = self._session.best.lines(told)
        told.update({name: latency_s for name, (latency_s, _) in lines.items()})
        call = self._actors[index].play.remote(self._config.schedule.slice_moves, publication, lines)
        self.calls.add(call, ACTOR, index)

    def prepare_learner(self) -> None:
        """Has the learner compile."""
        self.calls.add(self._learner.prepare.remote(), LEARNER)

    def learn(self) -> None:
        """Has the learner update until its next version of the parameters."""
        self.calls.add(self._learner.learn.remote(self._config.steps), LEARNER)

    def evaluate(self, publication: Publication) -> None:
        """Has the evaluator play with these parameters."""
        self.calls.add(self._evaluator.evaluate.remote(publication), EVALUATOR)

    def request_state(self) -> None:
        """Asks the learner for its training state, for a checkpoint."""
        self.calls.add(self._learner.state.remote(), STATE)

    def learner_state(self) -> TrainingState:
        """Returns the learner's training state. Raises Lost."""
        state: TrainingState = result_of(self._learner.state.remote(), LEARNER, self._config.ray.call_timeout_s)
        return state

    def completed(self, timeout_s: float) -> Iterator[tuple[Call, Any, Exception | None]]:
        """Yields every call that has completed, with its result or its error; waits for the first."""
        ready, _ = self._ray.wait(self.calls.references, num_returns=1, timeout=timeout_s)
        if ready:  # All ready calls come together, so that no worker waits for a turn of the driver.
            ready, _ = self._ray.wait(self.calls.references, num_returns=len(self.calls), timeout=0)
        for reference in ready:
            call = self.calls.pop(reference)
            try:
                result = self._ray.get(reference)
            except self._ray.exceptions.RayError as error:
                yield call, None, error
            else:
                yield call, result, None

    def end_slow_workers(self) -> None:
        """Ends workers that do not answer in time; their calls then fail, as if the workers had died.

        A worker that Ray has no room for is waited for, and so is one that hangs before it reports its process: from
        here the two look alike. After the time of a start, one line says so.
        """
        for call in self.calls.overdue():
            limit_s = self.calls.limit_s(call)
            self._session.say(f"{call.role} {call.index} has not answered for {limit_s:.0f} s; ending it")
            self.end(call.role, call.index)
        for call in self.calls.absent():
            limit_s = self._config.ray.start_timeout_s
            self._session.say(
                f"{call.role} {call.index} has not started for {limit_s:.0f} s: Ray may have no room for it "
                "(`ray status` shows what it waits for); going on without it"
            )

    @property
    def all_actors_have_played(self) -> bool:
        """True if every actor has played a slice since it was started."""
        return all(self.calls.proven(ACTOR, index) for index in range(self._config.actors))


def _environment(settings: RayConfig, role: str) -> dict[str, str]:
    """Returns the environment variables of a worker, set before it imports anything."""
    variables = {"TF_CPP_MIN_LOG_LEVEL": "3", "GRPC_VERBOSITY": "ERROR"}
    flags = os.environ.get("XLA_FLAGS", "")
    accelerator = role == LEARNER and (settings.learner_gpus > 0 or "TPU" in settings.learner_resources)
    if not accelerator:
        variables["JAX_PLATFORMS"] = "cpu"
    threads = settings.threads(role)
    if threads:
        variables |= {"OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)}
        if threads == 1:
            flags += " --xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    if flags.strip():
        variables["XLA_FLAGS"] = flags.strip()
    return variables
