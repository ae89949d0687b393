"""The replay of a Ray run as the driver sees it: the servers it starts, a client, and the counts of the whole run."""

import logging
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...replay.interface import ReplayStats, ReplayTimeout
from ...replay.reverb.servers import ReplayServers
from ...replay.reverb.sharded import open_replay
from ..config.config import TrainConfig
from ..run.checkpoints import REPLAY as REPLAY_FOLDER
from ..session.snapshot import Resumed
from .calls import Lost
from .cluster import Cluster

_log = logging.getLogger(__name__)
_STATS_PERIOD_S = 2.0
_POLL_S = 0.02
CHECKPOINT_TIMEOUT_S = 300.0
# The entry of a checkpoint's manifest that holds the counts of the run.
ENTRY = "replay_counts"


class ReplayService:
    """Starts the replay servers on the driver's node, where `reservation.py` keeps room, and watches over them.

    Args:
      config: the run's configuration.
      cluster: the cluster whose processes reach the servers.
      resumed: the checkpoint to restore, or None for empty tables.
      stack: ends the servers.

    Raises:
      UserError: the servers cannot start.
    """

    def __init__(self, config: TrainConfig, cluster: Cluster, resumed: Resumed | None, stack: ExitStack) -> None:
        restore_from = None
        if resumed is not None and (resumed.folder / REPLAY_FOLDER).exists():
            restore_from = resumed.folder / REPLAY_FOLDER
        self.servers = ReplayServers(config.replay, config.segment_spec, host=cluster.host, restore_from=restore_from)
        stack.callback(self.servers.stop)
        self._client = open_replay(
            self.servers.addresses, config.replay, config.segment_spec, servers=self.servers.each
        )
        stack.callback(self._client.close)
        self._counts = ReplayCounts(None if resumed is None else resumed.manifest)
        self._stats_at = 0.0

    def check(self, grace_s: float = 0.0) -> None:
        """Raises Lost if a server has died, or dies within `grace_s`."""
        # A killed process closes its connections before the system reports its end.
        deadline = time.monotonic() + grace_s
        while self.servers.alive and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        if not self.servers.alive:
            lines = self.servers.log.strip().splitlines()
            end = f"{self.servers.end}; its last line was {lines[-1]!r}" if lines else self.servers.end
            raise Lost("replay server", f"died: {end}")

    def stats_if_due(self) -> ReplayStats | None:
        """Returns the statistics with the counts of the run, or None if they are not due or no server answers."""
        if time.monotonic() - self._stats_at < _STATS_PERIOD_S:
            return None
        self._stats_at = time.monotonic()
        try:
            return self._counts.of(self._client.stats())
        except ReplayTimeout as error:
            _log.warning("%s", error)
            return None

    @property
    def entry(self) -> dict[str, dict[str, int]]:
        """The counts of the run as an entry of a checkpoint's manifest."""
        return self._counts.entry

    def checkpoint(self, folder: Path) -> None:
        """Writes all tables to a new folder.

        Raises:
          Lost: a server does not answer.
          UserError: a server cannot write, e.g. because its disk is full, or the folder cannot be written.
        """
        try:
            self._client.checkpoint(folder, timeout_s=CHECKPOINT_TIMEOUT_S)
        except (ReplayTimeout, RuntimeError) as error:
            raise Lost("replay server", f"cannot save ({error})") from error


class ReplayCounts:
    """Inserts and samples of a whole run.

    They never decrease, though a run whose replay server died is resumed with the table of an older checkpoint.
    """

    def __init__(self, manifest: Mapping[str, Any] | None) -> None:
        """Begins at zero, or at the counts in the manifest of a checkpoint."""
        saved = {} if manifest is None else manifest.get(ENTRY, {})
        self._inserts, self._samples = int(saved.get("inserts", 0)), int(saved.get("samples", 0))
        # How many inserts and samples the table's own counts lack; None until the table has been asked.
        self._lacking: tuple[int, int] | None = None

    def of(self, stats: ReplayStats) -> ReplayStats:
        """Returns the table's statistics with the counts of the run."""
        if self._lacking is None:
            self._lacking = max(0, self._inserts - stats.inserts), max(0, self._samples - stats.samples)
        inserts, samples = self._lacking
        self._inserts, self._samples = stats.inserts + inserts, stats.samples + samples
        return replace(stats, inserts=self._inserts, samples=self._samples)

    @property
    def entry(self) -> dict[str, dict[str, int]]:
        """The counts as an entry of a checkpoint's manifest."""
        return {ENTRY: {"inserts": self._inserts, "samples": self._samples}}
