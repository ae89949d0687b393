"""The figures of one line of metrics: everything that happened since the line before."""

import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...actors.self_play.loop import PlayReport
from .counters import Counters

# Parts of an actor's time, as `PlayReport` names them.
_ACTOR_PARTS = ("search", "game", "replay", "annealing")


class ReportWindow:
    """Collects play reports and learner metrics until the next line of metrics is due."""

    def __init__(self, counters: Counters) -> None:
        self._step, self._moves = counters.step, counters.moves
        self._since = time.monotonic()
        self._lags: list[int] = []
        self._actor_seconds: dict[str, float] = defaultdict(float)
        # By kind (`episode`: whole games; `branch`) and program.
        self._latencies_us: dict[tuple[str, str], list[float]] = defaultdict(list)
        self._scores: dict[tuple[str, str], list[float]] = defaultdict(list)
        self._learner_metrics: Mapping[str, Any] = {}

    @property
    def elapsed_s(self) -> float:
        """Seconds since the window began."""
        return time.monotonic() - self._since

    def played(self, report: PlayReport, step: int) -> None:
        """Adds a report of self-play that came in at the learner's update `step`."""
        self._lags.append(step - report.version)
        for part in _ACTOR_PARTS:
            self._actor_seconds[part] += getattr(report, f"{part}_seconds")
        self._actor_seconds["all"] += report.seconds
        for episode in report.episodes:
            if not episode.finished:
                continue
            key = ("branch" if episode.branch else "episode", episode.program)
            self._latencies_us[key].append(episode.latency_s * 1e6)
            self._scores[key].append(episode.score)

    def learned(self, metrics: Mapping[str, Any]) -> None:
        """Keeps the metrics of the last update; they may still be on the device."""
        self._learner_metrics = metrics

    def figures(self, counters: Counters, *, elapsed_s: float, actors: int) -> dict[str, float]:
        """Returns the figures of the window, by their names in the metric file.

        Args:
          counters: the run's counters now.
          elapsed_s: seconds since the window began.
          actors: self-play actors.
        """
        values: dict[str, float] = {
            "play/moves": counters.moves,
            "play/episodes": counters.episodes,
            "play/moves_per_s": (counters.moves - self._moves) / elapsed_s,
            "learner/steps_per_s": (counters.step - self._step) / elapsed_s,
            **{f"blocked/{role}_s": seconds for role, seconds in counters.blocked_s.items()},
            **{f"restarts/{role}": count for role, count in counters.restarts.items()},
            **{f"learner/{name}": float(value) for name, value in self._learner_metrics.items()},
            # The share of an actor's wall time that it spent playing, waits for the replay included.
            "play/time_share": self._actor_seconds["all"] / elapsed_s / actors,
        }
        if self._lags:
            values["play/policy_lag"] = float(np.mean(self._lags))
        if self._actor_seconds["all"] > 0:
            for part in _ACTOR_PARTS:
                values[f"play/{part}_share"] = self._actor_seconds[part] / self._actor_seconds["all"]
        for (kind, name), latencies in self._latencies_us.items():
            values[f"{kind}/{name}/latency_us"] = float(np.mean(latencies))
            values[f"{kind}/{name}/score"] = float(np.mean(self._scores[kind, name]))
        return values
