"""The driver of a Ray run: hands every worker its next call, publishes parameters, saves, and handles failures.

A worker that the replay holds reports that within a second; the rate limiter alone sets the pace of the run.
"""

import logging
import time
from dataclasses import replace
from typing import Any

import jax

from ...env.errors import UserError
from ...learner.networks.network import Params
from ...learner.state import TrainingState
from ..config.ray import ACTOR, EVALUATOR, LEARNER
from ..run.checkpoints import CannotSave
from ..session.session import Session
from ..session.snapshot import Snapshot
from .calls import NODE, STATE, Call, Lost, last_line
from .cluster import import_ray
from .fleet import Fleet
from .replay_service import CHECKPOINT_TIMEOUT_S, ReplayService
from .saving import SaveReplay, Saving, copy_replay, write_checkpoint
from .workers import Learned, Played, Publication

_log = logging.getLogger(__name__)
_WAIT_S = 1.0
# How long a replay server may take to end after its clients have lost it.
_GRACE_S = 2.0
_STOP_TIMEOUT_S = 60.0
# Seconds that the first actor waits for the others before the clock runs.
_PATIENCE_S = 120.0


class Driver:
    """Runs a fleet of workers around a replay.

    Args:
      session: the run.
      replay: the replay servers.
      fleet: the workers, all started.
      publication: the learner's first parameters.
    """

    def __init__(self, session: Session, *, replay: ReplayService, fleet: Fleet, publication: Publication) -> None:
        self.session, self.replay, self._fleet = session, replay, fleet
        self._config = session.config
        # The newest parameters, and the parameters that wait for the evaluator.
        self._publication = publication
        self._unevaluated: Publication | None = None
        if self._config.schedule.evaluate_period and session.resumed is None:
            self._unevaluated = publication
        self._restarts = 0
        self._saving: Saving | None = None
        self._starved_since: float | None = None
        # Until the clock runs: the workers that are ready, as role and index, in the order in which they became so.
        self._waiting: dict[tuple[str, int], None] | None = None

    def begin(self) -> None:
        """Has all workers compile, and starts the clock and the work once they are ready. Raises Lost.

        Actors that are not ready `_PATIENCE_S` after the first, e.g. for want of a node, join later.
        """
        session, self._waiting = self.session, {}
        self._fleet.prepare_learner()
        session.start()
        session.doing("the workers compile, longest on a new machine")
        first_ready: float | None = None
        while not session.finished:
            self.turn()
            session.start()
            session.show()
            actors = sum(role == ACTOR for role, _ in self._waiting)
            if not actors or (LEARNER, 0) not in self._waiting:
                continue
            first_ready = first_ready or time.monotonic()
            evaluator_ready = not self._config.schedule.evaluate_period or (EVALUATOR, 0) in self._waiting
            late = time.monotonic() - first_ready > _PATIENCE_S
            if late or (actors == self._config.actors and evaluator_ready):
                break
        session.start()
        session.doing("")
        waiting, self._waiting = self._waiting, None
        if not session.finished:
            for role, index in waiting:
                self._next_call(role, index)

    def turn(self) -> None:
        """Waits for calls that complete, takes their results, and hands the workers their next calls. Raises Lost."""
        if self._waiting is None:
            self._evaluate_if_due()
        self._complete_calls(again=True)
        self.replay.check()
        # The server answers nobody while it writes a checkpoint.
        stats = None if self._saving is not None else self.replay.stats_if_due()
        if stats is not None:
            self.session.replay_stats(stats)

    def end(self) -> Params:
        """Stops the workers, saves, and returns the last parameters: actors first, then the learner. Raises Lost."""
        session = self.session
        session.doing("stopping")
        self._drain()
        self.finish_save(CHECKPOINT_TIMEOUT_S)
        self._fleet.close_actors(_STOP_TIMEOUT_S)
        state = self._fleet.learner_state()
        self._fleet.close_learner(_STOP_TIMEOUT_S)
        self._save(state, self.replay.checkpoint)
        session.doing("")
        return jax.device_put(state.params)

    def rescue(self, lost: Lost) -> UserError:
        """Saves as much as a run that has lost a part still can; returns the error to raise."""
        session = self.session
        _log.error("%s", lost)
        kept = "the best mappings are in its folder `best`"
        try:
            self.finish_save(_STOP_TIMEOUT_S)
            if lost.role not in (LEARNER, NODE):
                state = self._fleet.learner_state()
                # The replay's server may be gone: a resumed run goes on with the table of the last checkpoint.
                self._save(state, lambda folder: copy_replay(session.checkpoints, folder))
                kept = f"update {int(state.step)} and the best mappings are saved"
        except (Lost, UserError) as error:
            _log.error("nothing more could be saved: %s", error)
        return UserError(
            f"{lost}; {kept}; `mallocmuzero train --run-dir {session.run.name} --resume` goes on from the last "
            "checkpoint"
        )

    # Results of calls.

    def _evaluate_if_due(self) -> None:
        if self._unevaluated is None or self._fleet.calls.under_way(EVALUATOR):
            return
        publication, self._unevaluated = self._unevaluated, None
        self._fleet.evaluate(publication)

    def _complete_calls(self, again: bool) -> None:
        """Takes the results of completed calls; `again` hands their workers the next ones. Raises Lost."""
        for call, result, error in self._fleet.completed(_WAIT_S):
            if error is not None:
                self._failed(call, error, again)
            elif call.role == STATE:
                if again:
                    self._save_beside(result)
            else:
                if result is not None:  # a worker that has become ready returns None
                    self._took(call, result)
                if not again:
                    continue
                if self._waiting is None:
                    self._next_call(call.role, call.index)
                else:
                    self._waiting[call.role, call.index] = None
        self._fleet.end_slow_workers()

    def _took(self, call: Call, result: Any) -> None:
        """Takes the report of a worker."""
        if call.role == ACTOR:
            self.played(call.index, result)
        elif call.role == LEARNER:
            self._learned(result)
        else:
            version, evaluations = result
            self.session.evaluated(evaluations, version)
            self._fleet.calls.has_worked(EVALUATOR)

    def _next_call(self, role: str, index: int) -> None:
        """Hands a worker its next call; an evaluator waits for parameters."""
        if role == ACTOR:
            self._fleet.play(index, self._publication)
        elif role == LEARNER and not self.session.finished:
            self._fleet.learn()

    def played(self, index: int, played: Played) -> None:
        """Takes an actor's report."""
        self.session.played(played.report)
        self.session.waited("actors", played.waits)
        self._fleet.actor_states[index] = played.state
        self._fleet.calls.has_worked(ACTOR, index)

    def _learned(self, learned: Learned) -> None:
        session = self.session
        period = self._config.schedule.evaluate_period
        before = session.counters.step
        session.learned(learned.updates, learned.metrics)
        session.waited(LEARNER, learned.waits)
        if learned.publication is not None:
            self._publication = learned.publication
            if period and learned.step // period > before // period:
                self._unevaluated = learned.publication
        if learned.updates:
            self._fleet.calls.has_worked(LEARNER)
        starved_since, limit_s = self._starved_since, self._config.ray.call_timeout_s
        if learned.held is None or learned.updates or not self._fleet.all_actors_have_played:
            self._starved_since = None
        elif starved_since is None:
            self._starved_since = time.monotonic()
        # Not if the learner starves because an actor hangs: that actor is ended and replaced.
        elif time.monotonic() - starved_since > limit_s and self._fleet.calls.begun_since(ACTOR, starved_since):
            raise Lost("replay", f"has given no batch for {limit_s:.0f} s: {learned.held}")

    def _failed(self, call: Call, error: Exception, again: bool) -> None:
        """Replaces a worker that died or raised. Raises Lost, or UserError where the user can fix the cause."""
        errors, cause = import_ray().exceptions, getattr(error, "cause", None)
        if not isinstance(cause, UserError):
            _log.error("%s %d: %s", call.role, call.index, error)
        # A worker that has raised may have lost its server; one that is gone has not.
        self.replay.check(0.0 if isinstance(error, errors.RayActorError) else _GRACE_S)
        if isinstance(cause, UserError):
            raise cause
        reason = last_line(error)
        if call.role in (LEARNER, STATE):
            if isinstance(error, errors.ActorUnavailableError):
                raise Lost(NODE, f"is out of reach: its raylet died, or the network is cut ({reason})")
            raise Lost(LEARNER, f"died ({reason})")
        if not again:
            return
        if self._waiting is not None:
            self._waiting.pop((call.role, call.index), None)
        self._restarts += 1
        self.session.counters.restarted(call.role)
        if self._restarts > self._config.ray.restarts:
            raise Lost(call.role, f"died once too often ({reason}); ray.restarts is {self._config.ray.restarts}")
        self.session.say(f"{call.role} {call.index} died ({reason}); starting another")
        self._fleet.replace(call.role, call.index)

    def _drain(self) -> None:
        """Waits for the calls under way and makes no others."""
        deadline = time.monotonic() + _STOP_TIMEOUT_S
        # An evaluation may take long, and nothing depends on it.
        if self._fleet.calls.drop(EVALUATOR):
            self._fleet.end(EVALUATOR)
        # A worker that waits for room has nothing to stop.
        self._fleet.calls.drop_absent()
        while self._fleet.calls and time.monotonic() < deadline:
            self._complete_calls(again=False)
        for call in self._fleet.calls:
            self.session.say(f"{call.role} {call.index} did not stop within {_STOP_TIMEOUT_S:.0f} s")

    # Checkpoints.

    def begin_save(self) -> None:
        """Asks the learner for its state; once it is there, a thread writes the checkpoint while training goes on."""
        if self._saving is None and not self._fleet.calls.under_way(STATE):
            self._fleet.request_state()

    def finish_save(self, timeout_s: float = 0.0) -> None:
        """Waits for a checkpoint that is being written, and notes its success or failure. Raises Lost."""
        saving, session = self._saving, self.session
        if saving is None or not saving.wait(timeout_s):
            return
        self._saving = None
        try:
            saving.result()
        except CannotSave as error:
            session.not_saved(error)
        else:
            session.saved()

    def _save_beside(self, state: TrainingState) -> None:
        """Starts writing a checkpoint on a thread."""
        session = self.session
        try:
            snapshot = self._snapshot()
        except CannotSave as error:
            session.not_saved(error)
            return
        self._saving = Saving(
            session.checkpoints,
            network=session.network,
            state=state,
            actors=self._actor_states,
            snapshot=snapshot,
            replay=self.replay.checkpoint,
        )

    def _save(self, state: TrainingState, replay: SaveReplay) -> None:
        """Writes a checkpoint and waits for it. Raises CannotSave or Lost."""
        session = self.session
        session.doing("saving")
        write_checkpoint(
            session.checkpoints,
            network=session.network,
            state=state,
            actors=self._actor_states,
            snapshot=self._snapshot(),
            replay=replay,
        )
        session.saved()
        session.doing("")

    def _snapshot(self) -> Snapshot:
        snapshot = self.session.snapshot()
        return replace(snapshot, entries={**snapshot.entries, **self.replay.entry})

    @property
    def _actor_states(self) -> list[dict[str, Any]]:
        return [state for state in self._fleet.actor_states if state is not None]
