"""Inserts and samples of a whole run: they never go back, though its table may have to be that of an earlier moment."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...replay.interface import ReplayStats

ENTRY = "replay_counts"


class ReplayCounts:
    """Counts on from what a checkpoint says, in case that the replay server died and its last table is older."""

    def __init__(self, manifest: Mapping[str, Any] | None) -> None:
        """Begins a run, or goes on with the one of a checkpoint."""
        saved = {} if manifest is None else manifest.get(ENTRY, {})
        self._inserts, self._samples = int(saved.get("inserts", 0)), int(saved.get("samples", 0))
        # What the table lacks; known once it has been asked.
        self._lacking: tuple[int, int] | None = None

    def of(self, stats: ReplayStats) -> ReplayStats:
        """Returns what the table says, with the counts of the run."""
        if self._lacking is None:
            self._lacking = max(0, self._inserts - stats.inserts), max(0, self._samples - stats.samples)
        inserts, samples = self._lacking
        self._inserts, self._samples = stats.inserts + inserts, stats.samples + samples
        return replace(stats, inserts=self._inserts, samples=self._samples)

    @property
    def entry(self) -> dict[str, dict[str, int]]:
        """What the manifest of a checkpoint remembers."""
        return {ENTRY: {"inserts": self._inserts, "samples": self._samples}}
