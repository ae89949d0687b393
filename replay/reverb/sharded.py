"""The client of several Reverb servers: each actor writes to one of them, the learner samples from all.

Every server paces its own actors and its own share of the samples. A batch is drawn from one server that has a batch
ready, in turn if several have. In the long run the samples of a server are in proportion to its inserts. Priorities are
compared within a server, and `Batch.probability` and `Batch.table_size` are those of the batch's server: as servers are
drawn from in proportion to their sizes, `table_size * probability` is the value that one large table would have.
"""

import threading
import time
from collections import deque
from collections.abc import Sequence
from os import PathLike

import numpy as np

from ..config import ReplayConfig
from ..interface import Replay, ReplayStats, ReplayTimeout, SegmentWriter, check_priorities
from ..segment import Batch, SegmentSpec
from .client import ReverbReplay
from .server import ReplayServer
from .servers import at_once, shard_folder

# Batches whose server is remembered: priorities come back within a few batches.
_REMEMBERED = 16


def open_replay(
    addresses: Sequence[str], config: ReplayConfig, spec: SegmentSpec, *, servers: Sequence[ReplayServer] | None = None
) -> "ReverbReplay | ShardedReplay":
    """Returns the client of one or several servers; arguments as in `ShardedReplay`."""
    if len(addresses) > 1:
        return ShardedReplay(addresses, config, spec, servers=servers)
    return ReverbReplay(addresses[0], config, spec, server=None if servers is None else servers[0])


class ShardedReplay:
    """A `Replay` over several servers.

    Args:
      addresses: `host:port` of each server, `config.servers` of them.
      config: settings of all servers together.
      spec: the servers' sizes.
      servers: the servers' handles, in the process that started them, as `ReverbReplay` takes them.

    Raises:
      UserError: as `ReverbReplay`.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        config: ReplayConfig,
        spec: SegmentSpec,
        *,
        servers: Sequence[ReplayServer] | None = None,
    ) -> None:
        if len(addresses) != config.servers:
            raise ValueError(f"{len(addresses)} addresses for {config.servers} servers")
        self._config = config
        # A permit per batch that is ready, at most one per server, and one when a server has failed.
        self._arrived = threading.Semaphore(0)
        handles: Sequence[ReplayServer | None] = [None] * config.servers if servers is None else servers
        share = config.share()
        self._shards = [
            ReverbReplay(address, share, spec, server=handle, arrived=self._arrived.release)
            for address, handle in zip(addresses, handles, strict=True)
        ]
        self._drawn: deque[tuple[np.ndarray, ReverbReplay]] = deque(maxlen=_REMEMBERED)
        self._turn = 0
        self._writers = 0
        self._blocked_s = 0.0

    def writer(self) -> SegmentWriter:
        """See `Replay.writer`; writers go to the servers in turn."""
        self._writers += 1
        return self._shards[self._writers % len(self._shards)].writer()

    def sample(self, batch_size: int, timeout_s: float) -> Batch:
        """See `Replay.sample`: a batch of one server.

        Raises:
          RuntimeError: Reverb failed.
        """
        start = time.monotonic()
        for shard in self._shards:
            shard.fetch_ahead(batch_size)
        try:
            while self._arrived.acquire(timeout=max(0.0, start + timeout_s - time.monotonic())):
                batch = self._take()
                if batch is not None:
                    return batch
            batch = self._take()  # Raises if a server has failed.
            if batch is not None:
                return batch
        finally:
            self._blocked_s += time.monotonic() - start
        why = "; ".join(f"server {index}: {shard.diagnosis()}" for index, shard in enumerate(self._shards))
        raise ReplayTimeout(f"no batch of {batch_size} within {timeout_s:g} s; {why}")

    def _take(self) -> Batch | None:
        for _ in self._shards:
            self._turn = (self._turn + 1) % len(self._shards)
            shard = self._shards[self._turn]
            batch = shard.take()
            if batch is not None:
                self._drawn.append((batch.key, shard))
                return batch
        return None

    def update_priorities(self, keys: np.ndarray, priorities: np.ndarray) -> None:
        """See `Replay.update_priorities`; for keys of the last few batches."""
        keys, priorities = check_priorities(keys, priorities)
        # Newest first: priorities are most often those of the last batch.
        for drawn, shard in reversed(self._drawn):
            known = np.isin(keys, drawn)
            if known.any():
                shard.update_priorities(keys[known], priorities[known])
                keys, priorities = keys[~known], priorities[~known]
            if not len(keys):
                return

    def flush_priorities(self, timeout_s: float) -> None:
        """See `ReverbReplay.flush_priorities`, of all servers."""
        at_once(lambda shard: shard.flush_priorities(timeout_s), self._shards)

    def stats(self) -> ReplayStats:
        """See `Replay.stats`: sums over the servers."""
        each = at_once(ReverbReplay.stats, self._shards)
        return ReplayStats(
            size=sum(stats.size for stats in each),
            inserts=sum(stats.inserts for stats in each),
            samples=sum(stats.samples for stats in each),
            insert_blocked_s=sum(stats.insert_blocked_s for stats in each),
            sample_blocked_s=self._blocked_s,
        )

    @property
    def waited_s(self) -> dict[str, float]:
        """See `ReverbReplay.waited_s`."""
        return {"insert": sum(shard.waited_s["insert"] for shard in self._shards), "sample": self._blocked_s}

    def checkpoint(self, directory: str | PathLike[str], timeout_s: float = 600.0) -> None:
        """See `ReverbReplay.checkpoint`: writes a folder in `directory` for each server, all at once."""
        at_once(
            lambda index: self._shards[index].checkpoint(shard_folder(directory, self._config, index), timeout_s),
            range(len(self._shards)),
        )

    def restore(self, directory: str | PathLike[str]) -> None:
        """See `ReverbReplay.restore`."""
        self._drawn.clear()
        at_once(
            lambda index: self._shards[index].restore(shard_folder(directory, self._config, index)),
            range(len(self._shards)),
        )

    def close(self) -> None:
        """See `Replay.close`."""
        at_once(ReverbReplay.close, self._shards)


_: type[Replay] = ShardedReplay
