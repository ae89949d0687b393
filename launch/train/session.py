"""What a training run is apart from its topology: counters, best mappings, metrics, progress, what is due when."""

import json
import logging
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...actors.evaluate.evaluate import Evaluation
from ...actors.self_play.actor import PlayReport
from ...actors.self_play.best import BestMappings
from ...env.errors import FormatError, UserError
from ...env.physics.cost import MSA
from ...env.program.program import Program
from ...learner.networks.network import Network
from ...replay.interface import ReplayStats
from ..config.config import TrainConfig
from ..run.checkpoints import BEST, CONFIG, CannotSave, RunCheckpoints
from ..run.directory import RunDirectory
from ..run.json_file import write_json_file
from ..stop import StopRequest
from .metrics import MetricWriter
from .progress import ProgramView, Progress, View

_log = logging.getLogger(__name__)
# After a checkpoint that could not be written, the next try comes this soon.
_SAVE_AGAIN_S = 60.0


@dataclass
class Counters:
    """What a run has done so far, earlier parts of a resumed one included.

    Attributes:
      step: learner updates.
      moves, episodes: of all actors.
      program_episodes: finished games by program.
      seconds: trained.
      blocked_s: seconds that `actors` and `learner` waited for the replay, summed over their processes, and, as
        `ROLE_CAUSE`, what they waited for else: `turn`, `parameters`, `saving`.
      restarts: times that a dead worker was replaced, by role.
    """

    step: int = 0
    moves: int = 0
    episodes: int = 0
    program_episodes: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    blocked_s: dict[str, float] = field(default_factory=lambda: {"actors": 0.0, "learner": 0.0})
    restarts: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Snapshot:
    """What a session puts into a checkpoint, at one moment; writing it needs no session and may take its time.

    Attributes:
      entries: of the manifest.
      config: the configuration.
      best: files of the best mappings.
    """

    entries: dict[str, Any]
    config: dict[str, Any]
    best: list[Path]

    def write(self, folder: Path, entries: dict[str, Any]) -> None:
        """Adds it to a checkpoint that is being written. Raises OSError or UserError if it cannot."""
        entries.update(self.entries)
        write_json_file(folder / CONFIG, self.config)
        (folder / BEST).mkdir()
        for path in self.best:
            shutil.copyfile(path, folder / BEST / path.name)


@dataclass(frozen=True)
class Resumed:
    """The checkpoint that a run goes on from: its folder and manifest."""

    folder: Path
    manifest: dict[str, Any]


class Session:
    """One `mallocmuzero train`, between its beginning and its end.

    Attributes:
      run, config, programs, network: what is trained, and where.
      resumed: the checkpoint it goes on from, or None.
      counters: what has been done.
      best: the best mappings.
      checkpoints: where to save.
      stop: true once the user wants to stop.
      on_saved: called after each checkpoint.
    """

    def __init__(
        self,
        run: RunDirectory,
        config: TrainConfig,
        programs: Sequence[Program],
        resumed: Resumed | None,
        stop: StopRequest,
        progress: Progress,
    ) -> None:
        self.run, self.config, self.programs = run, config, list(programs)
        self.network = Network(config.network)
        self.resumed = resumed
        self.stop = stop
        self.on_saved: Callable[[], None] = lambda: None
        self.checkpoints = RunCheckpoints(run.checkpoints, config.schedule.checkpoints_kept)
        self.best = BestMappings(self.programs, config.actor)
        self.counters = Counters()
        self._progress = progress
        offset = None
        if resumed is not None:
            offset = self._read_counters(resumed)
            self.best.load(resumed.folder / BEST)
            # What was found after the checkpoint is not lost either.
            self.best.load(run.best)
        # Best mappings that are not on the disk.
        self._unsaved = {name for name, _ in self.best.items()}
        self._metrics = MetricWriter(
            run.metrics_file, run.tensorboard, offset, None if resumed is None else self.counters.step
        )
        self._metrics_full = self._best_full = False
        judges = {name: config.actor.judge(program) for name, program in self._by_name.items()}
        production = {name: judge.production_s for name, judge in judges.items()}
        self._views = {
            name: ProgramView(
                name,
                self.counters.program_episodes.get(name, 0),
                production_us=None if production_s is None else production_s * 1e6,
                objective=judges[name].objective,
            )
            for name, production_s in production.items()
        }
        for name, best in self.best.items():
            self._views[name].best_us = best.latency_s * 1e6
        self._view = View(programs=list(self._views.values()))
        self._seconds_before = self.counters.seconds
        self._begin = time.monotonic()
        self._saved_at = self._begin
        self._pending = _Pending(self.counters.step, self.counters.moves)
        self._replay: ReplayStats | None = None
        self._save_best()
        if resumed is not None and self._metrics.sha256 != resumed.manifest.get("metrics_sha256"):
            self.say(
                f"{run.metrics_file}: is not as checkpoint {resumed.folder.name} has seen it (changed, or cut); "
                "training goes on, its figures are not whole"
            )

    def start(self) -> None:
        """Starts the clock: what was needed to get here is not training."""
        self._begin = self._saved_at = time.monotonic()
        self._pending = _Pending(self.counters.step, self.counters.moves)

    @property
    def judged_by_msa_alone(self) -> list[str]:
        """Names of the programs that fall short of `robust`, which nobody asked not to have."""
        if self.config.actor.objective is not None:
            return []
        return [name for name, view in self._views.items() if view.objective == MSA]

    @property
    def _by_name(self) -> dict[str, Program]:
        return {program.name: program for program in self.programs}

    @property
    def seconds(self) -> float:
        """Seconds trained, earlier parts included."""
        return self._seconds_before + time.monotonic() - self._begin

    @property
    def finished(self) -> bool:
        """Whether the run has trained as long as it should, or the user wants to stop."""
        config = self.config
        if config.steps is not None and self.counters.step >= config.steps:
            return True
        return bool(self.stop) or (config.minutes is not None and self.seconds >= 60 * config.minutes)

    @property
    def checkpoint_due(self) -> bool:
        """Whether it is time to save."""
        return time.monotonic() - self._saved_at >= 60 * self.config.schedule.checkpoint_minutes

    @property
    def evaluation_due(self) -> bool:
        """Whether the parameters of this step are to be evaluated."""
        period = self.config.schedule.evaluate_period
        return period > 0 and self.counters.step % period == 0

    def played(self, report: PlayReport) -> None:
        """Counts what an actor has played, and keeps its best mappings."""
        counters = self.counters
        counters.moves += report.moves
        self._pending.lags.append(counters.step - report.version)
        for part in ("search", "game", "replay", "annealing"):
            self._pending.actor_seconds[part] += getattr(report, f"{part}_seconds")
        self._pending.actor_seconds["all"] += report.seconds
        for episode in report.episodes:
            counters.episodes += 1
            name = episode.program
            counters.program_episodes[name] = counters.program_episodes.get(name, 0) + 1
            kind = "branch" if episode.branch else "episode"
            self._pending.latencies_us[kind, name].append(episode.latency_s * 1e6)
            self._pending.scores[kind, name].append(episode.score)
            if self.best.offer(episode, {"seed": self.config.seed}):
                self._views[name].best_us = self.best[name].latency_s * 1e6
                self._unsaved.add(name)
                self._save_best()

    def learned(self, updates: int, metrics: Mapping[str, Any]) -> None:
        """Counts updates; `metrics` are those of the last one, still on the device if they like."""
        self.counters.step += updates
        self._pending.learner_metrics = metrics

    def waited(self, role: str, seconds: Mapping[str, float]) -> None:
        """Adds seconds that a role (`actors`, `learner`) waited, by cause; `replay` counts under the role alone."""
        for cause, waited_s in seconds.items():
            name = role if cause == "replay" else f"{role}_{cause}"
            self.counters.blocked_s[name] = self.counters.blocked_s.get(name, 0.0) + waited_s

    def restarted(self, role: str) -> None:
        """Counts a dead worker (`actor`, `evaluator`) that is being replaced."""
        self.counters.restarts[role] = self.counters.restarts.get(role, 0) + 1

    def replay_stats(self, stats: ReplayStats) -> None:
        """Takes note of where the replay stands."""
        self._replay = stats

    def evaluated(self, evaluations: Iterable[Evaluation], step: int) -> None:
        """Writes the learning curve's next points, for the parameters of `step`."""
        values = {}
        for evaluation in evaluations:
            name = f"evaluation/{evaluation.program}/{evaluation.solver}"
            values[f"{name}/latency_us"] = evaluation.latency_us
            values |= {f"{name}/{model}_us": us for model, us in evaluation.model_us.items() if us is not None}
            values[f"{name}/verified"] = float(evaluation.verified)
            if evaluation.production_us is not None:
                values[f"{name}/of_production"] = evaluation.latency_us / evaluation.production_us
        self._write_metrics(step, values)

    def doing(self, text: str) -> None:
        """Shows what takes long just now."""
        self._view.doing = text
        self.show(force=bool(text))

    def say(self, text: str) -> None:
        """Prints a line that stays, and logs it."""
        _log.info(text)
        self._progress.say(text)

    def show(self, force: bool = False) -> None:
        """Brings the display up to date."""
        view, counters, config = self._view, self.counters, self.config
        view.step, view.moves, view.episodes, view.seconds = (
            counters.step,
            counters.moves,
            counters.episodes,
            self.seconds,
        )
        if self._replay is not None and self._replay.inserts:
            view.samples_per_insert = self._replay.samples / self._replay.inserts
        for name, program in self._views.items():
            program.episodes = counters.program_episodes.get(name, 0)
        left = [60 * config.minutes - view.seconds] if config.minutes is not None else []
        if config.steps is not None and view.steps_per_s > 0:
            left.append((config.steps - view.step) / view.steps_per_s)
        view.left_s = min(left, default=None)
        self._progress.show(view, force)

    def report(self, force: bool = False) -> None:
        """Writes a line of metrics if it is time again, and brings the display up to date."""
        pending = self._pending
        elapsed = time.monotonic() - pending.since
        if elapsed >= self.config.schedule.report_seconds or (force and elapsed > 0):
            self._write(pending, elapsed)
            self._pending = _Pending(self.counters.step, self.counters.moves)
            self._save_best()
        self.show(force)

    def snapshot(self) -> Snapshot:
        """Returns what the session puts into a checkpoint.

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

    def save_if_due(self, save: Callable[[], None]) -> None:
        """Calls `save` if it is time to; should the disk be full, says so, and training goes on."""
        if self.checkpoint_due:
            try:
                save()
            except CannotSave as error:
                self.not_saved(error)

    def saved(self) -> None:
        """Takes note that a checkpoint is complete."""
        self._saved_at = time.monotonic()
        self.on_saved()
        _log.info("checkpoint at update %d, %d moves", self.counters.step, self.counters.moves)

    def not_saved(self, error: CannotSave) -> None:
        """Takes note that a checkpoint could not be written."""
        period = 60 * self.config.schedule.checkpoint_minutes
        again = min(period, _SAVE_AGAIN_S)
        self._saved_at = time.monotonic() - period + again
        self.doing("")
        self.say(f"no checkpoint at update {self.counters.step}: {error}; training goes on, next try in {again:.0f} s")

    def close(self) -> None:
        """Closes the metric files."""
        self._metrics.close()

    def _save_best(self) -> None:
        """Writes the best mappings that are not on the disk, as far as it takes them."""
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
        """Writes figures; training does not end because a disk is full."""
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

    def _read_counters(self, resumed: Resumed) -> int:
        """Takes over the checkpoint's counters; returns its place in the metric file."""
        try:
            self.counters = Counters(**resumed.manifest["counters"])
            return int(resumed.manifest["metrics_offset"])
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(
                f"{resumed.folder}: field `counters` or `metrics_offset` of its manifest is malformed ({error}); "
                "remove that checkpoint to go on from the one before"
            ) from error

    def _write(self, pending: "_Pending", elapsed: float) -> None:
        counters, view = self.counters, self._view
        view.steps_per_s = (counters.step - pending.step) / elapsed
        view.moves_per_s = (counters.moves - pending.moves) / elapsed
        values: dict[str, float] = {
            "play/moves": counters.moves,
            "play/episodes": counters.episodes,
            "play/moves_per_s": view.moves_per_s,
            "learner/steps_per_s": view.steps_per_s,
            **{f"blocked/{role}_s": seconds for role, seconds in counters.blocked_s.items()},
            **{f"restarts/{role}": count for role, count in counters.restarts.items()},
            **{f"learner/{name}": float(value) for name, value in pending.learner_metrics.items()},
            # Of the wall time, what an actor spent in playing, waits for the replay included.
            "play/time_share": pending.actor_seconds["all"] / elapsed / self.config.actors,
        }
        if pending.lags:
            view.policy_lag = float(np.mean(pending.lags))
            values["play/policy_lag"] = view.policy_lag
        for part in ("search", "game", "replay", "annealing"):
            if pending.actor_seconds["all"] > 0:
                values[f"play/{part}_share"] = pending.actor_seconds[part] / pending.actor_seconds["all"]
        for (kind, name), latencies in pending.latencies_us.items():
            if kind == "episode":
                self._views[name].recent_us = float(np.mean(latencies))
            values[f"{kind}/{name}/latency_us"] = float(np.mean(latencies))
            values[f"{kind}/{name}/score"] = float(np.mean(pending.scores[kind, name]))
        for name, program in self._views.items():
            if program.best_us is not None:
                values[f"best/{name}/latency_us"] = program.best_us
            if program.ratio is not None:
                values[f"best/{name}/of_production"] = program.ratio
        if self._replay is not None:
            values |= {
                f"replay/{name}": value for name, value in self._replay.as_dict().items() if "blocked" not in name
            }
            if self._replay.inserts:
                values["replay/samples_per_insert"] = self._replay.samples / self._replay.inserts
        self._write_metrics(counters.step, values)


class _Pending:
    """What has happened since the last line of metrics."""

    def __init__(self, step: int, moves: int) -> None:
        self.step, self.moves = step, moves
        self.since = time.monotonic()
        self.lags: list[int] = []
        self.actor_seconds: dict[str, float] = defaultdict(float)
        # By kind (whole games, branches) and program.
        self.latencies_us: dict[tuple[str, str], list[float]] = defaultdict(list)
        self.scores: dict[tuple[str, str], list[float]] = defaultdict(list)
        self.learner_metrics: Mapping[str, Any] = {}


def write_actor_states(path: Path, states: Sequence[Mapping[str, Any]]) -> None:
    """Writes where every actor stands."""
    path.write_text(json.dumps({"actors": list(states)}), encoding="utf-8")


def read_actor_states(path: Path) -> list[dict[str, Any]]:
    """Reads what `write_actor_states` wrote. The checkpoint's manifest has vouched for its content."""
    states: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["actors"]
    return states
