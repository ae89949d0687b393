"""A training run apart from its topology: counts, best mappings, metrics, progress, and the times of checkpoints."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict
from typing import Any

from ...actors.evaluate.evaluate import Evaluation
from ...actors.self_play.best_mappings import BestMappings
from ...actors.self_play.config import RESIDENCY
from ...actors.self_play.loop import PlayReport
from ...env.errors import UserError
from ...env.physics.cost import MSA
from ...env.physics.objective import latencies
from ...env.program.program import Program
from ...learner.networks.network import Network
from ...replay.interface import ReplayStats
from ..config.config import TrainConfig
from ..run.checkpoints import BEST, CannotSave, RunCheckpoints
from ..run.directory import RunDirectory
from ..terminal.stop import StopRequest
from .counters import Counters, read_counters
from .metrics import MetricWriter
from .progress import ProgramView, Progress, View
from .report_window import ReportWindow
from .snapshot import Resumed, Snapshot

_log = logging.getLogger(__name__)
# Seconds until the next try after a checkpoint that could not be written.
_SAVE_AGAIN_S = 60.0


class Session:
    """One `mallocmuzero train`, from its beginning to its end.

    A topology trains, and reports to the session: `played`, `learned`, `waited`, `replay_stats`, `evaluated`, `saved`.
    It asks the session when to stop, evaluate and save: `finished`, `evaluation_due`, `save_if_due`.

    Attributes:
      run: the run directory.
      config: the configuration.
      programs: the programs that are played.
      network: the network that is trained.
      resumed: the checkpoint that the run is resumed from, or None.
      counters: counts since the run began.
      best: the best mapping of each program.
      checkpoints: the run's checkpoints.
      stop: true once the user wants to stop.
      on_saved: called after each checkpoint, with the run's checkpoints.
    """

    def __init__(
        self,
        run: RunDirectory,
        config: TrainConfig,
        programs: Sequence[Program],
        *,
        resumed: Resumed | None,
        stop: StopRequest,
        progress: Progress,
    ) -> None:
        self.run, self.config, self.programs = run, config, list(programs)
        self.network = Network(config.network)
        self.resumed = resumed
        self.stop = stop
        self.on_saved: Callable[[RunCheckpoints], None] = lambda checkpoints: None
        self.checkpoints = RunCheckpoints(run.checkpoints, config.schedule.checkpoints_kept)
        self.best = BestMappings(self.programs, config.actor)
        self.counters = Counters()
        self._progress = progress
        metrics_size = None
        if resumed is not None:
            self.counters, metrics_size = read_counters(resumed)
            self.best.load(resumed.folder / BEST)
        elif run.metrics_file.is_file():  # It ended before its first checkpoint, and begins anew.
            metrics_size = 0
        # Mappings found after the checkpoint are kept too.
        self.best.load(run.best)
        # Names of the best mappings that are not on the disk yet.
        self._unsaved = {name for name, _ in self.best.items()}
        self._metrics = MetricWriter(
            run.metrics_file, run.tensorboard, metrics_size, None if metrics_size is None else self.counters.step
        )
        # The disk refused the last line of metrics, or the last best mapping.
        self._metrics_full = self._best_full = False
        self._by_name = {program.name: program for program in self.programs}
        self._view = View(programs=[self._program_view(program) for program in self.programs])
        self._update_program_views()
        self._seconds_before = self.counters.seconds
        self._begin = self._saved_at = time.monotonic()
        self._window = ReportWindow(self.counters)
        self._replay: ReplayStats | None = None
        self._save_best()
        if resumed is not None and self._metrics.sha256 != resumed.manifest.get("metrics_sha256"):
            self.say(
                f"{run.metrics_file}: is not as checkpoint {resumed.folder.name} has seen it (changed, or cut); "
                "training goes on, its figures are not whole"
            )

    def _program_view(self, program: Program) -> ProgramView:
        judge = self.config.actor.judge(program)
        tuned = judge.tuned()
        return ProgramView(
            program.name,
            production_us=None if judge.production_s is None else judge.production_s * 1e6,
            flags_us=None if tuned is None else judge.seconds(tuned) * 1e6,
            objective=judge.objective,
        )

    def start(self) -> None:
        """Starts the clock: seconds before this call, such as those of compilation, do not count as training."""
        self._begin = self._saved_at = time.monotonic()
        self._window = ReportWindow(self.counters)

    @property
    def judged_by_msa_alone(self) -> list[str]:
        """Names of the programs without a cycle table, which are judged by `msa` though `robust` is the default."""
        if self.config.actor.objective is not None:
            return []
        return [view.name for view in self._view.programs if view.objective == MSA]

    @property
    def seconds(self) -> float:
        """Seconds trained, resumed parts included."""
        return self._seconds_before + time.monotonic() - self._begin

    # What is due.

    @property
    def finished(self) -> bool:
        """True if the run has made its steps or its minutes, or the user wants to stop."""
        return bool(self.stop) or self.limit_reached is not None

    @property
    def limit_reached(self) -> str | None:
        """Which limit of the run is reached, in words; None if none is."""
        config, step = self.config, self.counters.step
        if config.steps is not None and step >= config.steps:
            return f"has {step} updates already, and steps is {config.steps}"
        if config.minutes is not None and self.seconds >= 60 * config.minutes:
            return f"has trained for {self.seconds / 60:.1f} minutes already, and minutes is {config.minutes:g}"
        return None

    @property
    def evaluation_due(self) -> bool:
        """True if the parameters of this step are to be evaluated."""
        period = self.config.schedule.evaluate_period
        return period > 0 and self.counters.step % period == 0

    def save_if_due(self, save: Callable[[], None]) -> None:
        """Calls `save` if a checkpoint is due. If `save` raises CannotSave, reports it; training goes on."""
        if time.monotonic() - self._saved_at >= 60 * self.config.schedule.checkpoint_minutes:
            try:
                save()
            except CannotSave as error:
                self.not_saved(error)

    # Reports of the topology.

    def played(self, report: PlayReport) -> None:
        """Counts the moves and games of an actor, and keeps its best mappings."""
        self.counters.moves += report.moves
        self._window.played(report, self.counters.step)
        for episode in report.episodes:
            if episode.finished:
                self.counters.episode(episode.program)
            if self.best.offer(episode, {"seed": self.config.seed}):
                self._unsaved.add(episode.program)
                self._save_best()

    def learned(self, updates: int, metrics: Mapping[str, Any]) -> None:
        """Counts updates; `metrics` are those of the last one and may still be on the device."""
        self.counters.step += updates
        self._window.learned(metrics)

    def waited(self, role: str, seconds: Mapping[str, float]) -> None:
        """Adds seconds that a role (`actors`, `learner`) waited, by cause."""
        for cause, waited_s in seconds.items():
            self.counters.waited(role, waited_s, cause)

    def replay_stats(self, stats: ReplayStats) -> None:
        """Keeps the replay's statistics for the next report."""
        self._replay = stats

    def evaluated(self, evaluations: Iterable[Evaluation], step: int) -> None:
        """Writes the next points of the learning curve: evaluations of the parameters of `step`."""
        values = {}
        for evaluation in evaluations:
            name = f"evaluation/{evaluation.program}/{evaluation.solver}"
            values[f"{name}/latency_us"] = evaluation.latency_us
            values |= {f"{name}/{model}_us": us for model, us in evaluation.model_us.items() if us is not None}
            values[f"{name}/verified"] = float(evaluation.verified)
            if evaluation.production_us is not None:
                values[f"{name}/of_production"] = evaluation.latency_us / evaluation.production_us
        self._write_metrics(step, values)

    # The display and the metric file.

    def doing(self, text: str) -> None:
        """Shows a long step, such as saving; an empty text ends it."""
        self._view.doing = text
        self.show(force=bool(text))

    def say(self, text: str) -> None:
        """Prints a line that stays, and logs it."""
        _log.info(text)
        self._progress.say(text)

    def show(self, force: bool = False) -> None:
        """Brings the display up to date."""
        view, counters, config = self._view, self.counters, self.config
        view.step, view.moves, view.episodes = counters.step, counters.moves, counters.episodes
        view.seconds = self.seconds
        if self._replay is not None and self._replay.inserts:
            view.samples_per_insert = self._replay.samples / self._replay.inserts
        self._update_program_views()
        left = [60 * config.minutes - view.seconds] if config.minutes is not None else []
        if config.steps is not None and view.steps_per_s > 0:
            left.append((config.steps - view.step) / view.steps_per_s)
        view.left_s = min(left, default=None)
        self._progress.show(view, force)

    def report(self, force: bool = False) -> None:
        """Writes a line of metrics if one is due or `force` is set, and brings the display up to date."""
        elapsed_s = self._window.elapsed_s
        if elapsed_s >= self.config.schedule.report_seconds or (force and elapsed_s > 0):
            self._write_window(elapsed_s)
            self._window = ReportWindow(self.counters)
            self._save_best()
        self.show(force)

    # Checkpoints.

    def snapshot(self) -> Snapshot:
        """Returns the session's part of a checkpoint.

        Raises:
          CannotSave: a best mapping cannot be written.
        """
        self.report(force=True)
        self._save_best()
        if self._unsaved:
            raise CannotSave(f"{self.run.best}: cannot be written; free space")
        self.counters.seconds = self.seconds
        entries = {
            "counters": deepcopy(asdict(self.counters)),
            "metrics_offset": self._metrics.offset,
            "metrics_sha256": self._metrics.sha256,
            "programs": {program.name: program.sha256 for program in self.programs},
        }
        best = [self.run.best / f"{name}.mapping.json.gz" for name, _ in self.best.items()]
        return Snapshot(entries, self.config.to_json(), best)

    def saved(self) -> None:
        """Notes that a checkpoint is complete."""
        self._saved_at = time.monotonic()
        self.on_saved(self.checkpoints)
        _log.info("checkpoint at update %d, %d moves", self.counters.step, self.counters.moves)

    def not_saved(self, error: CannotSave) -> None:
        """Notes that a checkpoint could not be written, and plans the next try."""
        period = 60 * self.config.schedule.checkpoint_minutes
        again = min(period, _SAVE_AGAIN_S)
        self._saved_at = time.monotonic() - period + again
        self.doing("")
        self.say(f"no checkpoint at update {self.counters.step}: {error}; training goes on, next try in {again:.0f} s")

    def close(self) -> None:
        """Closes the metric files."""
        self._metrics.close()

    def _save_best(self) -> None:
        """Writes the best mappings that are not on the disk yet; stops at the first that the disk refuses."""
        for name in sorted(self._unsaved):
            try:
                self.best.save(self.run.best, [name])
            except UserError as error:
                if not self._best_full:
                    self.say(f"a best mapping is kept in memory: {error}")
                self._best_full = True
                return
            self._unsaved.discard(name)
        if self._best_full:
            self._best_full = False
            self.say("the best mappings are on the disk again")

    def _write_metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Writes a line of metrics. Training goes on if the disk is full."""
        try:
            self._metrics.write(step, self.seconds, values)
        except UserError as error:
            if not self._metrics_full:
                self.say(f"figures are lost: {error}")
            self._metrics_full = True
            return
        if self._metrics_full:
            self._metrics_full = False
            self.say("figures are written again")

    def _write_window(self, elapsed_s: float) -> None:
        """Writes the line of metrics of the window that ends now."""
        values = self._window.figures(self.counters, elapsed_s=elapsed_s, actors=self.config.actors)
        self._view.steps_per_s, self._view.moves_per_s = values["learner/steps_per_s"], values["play/moves_per_s"]
        self._view.policy_lag = values.get("play/policy_lag", self._view.policy_lag)
        self._update_program_views()
        # In the residency game every game is a branch.
        kind = "branch" if self.config.actor.decisions == RESIDENCY else "episode"
        for view in self._view.programs:
            view.recent_us = values.get(f"{kind}/{view.name}/latency_us", view.recent_us)
            if view.best_us is not None:
                values[f"best/{view.name}/latency_us"] = view.best_us
            if view.ratio is not None:
                values[f"best/{view.name}/of_production"] = view.ratio
            if view.flags_ratio is not None:
                values[f"best/{view.name}/flags_of_production"] = view.flags_ratio
            values |= {f"best/{view.name}/{model}_us": us for model, us in view.best_model_us.items() if us is not None}
        if self._replay is not None:
            values |= {
                f"replay/{name}": value for name, value in self._replay.as_dict().items() if "blocked" not in name
            }
            if self._replay.inserts:
                values["replay/samples_per_insert"] = self._replay.samples / self._replay.inserts
        self._write_metrics(self.counters.step, values)

    def _update_program_views(self) -> None:
        for view in self._view.programs:
            view.episodes = self.counters.program_episodes.get(view.name, 0)
            if view.name in self.best:
                best = self.best[view.name]
                if view.best_us != best.latency_s * 1e6:
                    by_model = latencies(self._by_name[view.name], best.mapping)
                    view.best_model_us = {model: None if s is None else s * 1e6 for model, s in by_model.items()}
                view.best_us = best.latency_s * 1e6
