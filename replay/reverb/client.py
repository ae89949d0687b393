"""The client of one Reverb server: a `Replay` for any process of the cluster."""

import errno
import logging
import shutil
import threading
import time
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ...env.errors import UserError
from .. import checkpoint
from ..config import ReplayConfig
from ..interface import ReplayStats, ReplayTimeout, check_priorities
from ..segment import Batch, SegmentSpec
from .fetcher import Arrays, BatchFetcher
from .lazy_import import import_reverb
from .priorities import PriorityUpdater
from .server import ReplayServer
from .stored_table import DATA, KIND
from .table import TABLE, check_table
from .writer import ReverbWriter

_log = logging.getLogger(__name__)
_INFO_TIMEOUT_S = 10
_CLOSE_TIMEOUT_S = 5.0


class ReverbReplay:
    """A `Replay` behind a `ReplayServer`. The first `sample` and the first `update_priorities` start a thread each.

    Args:
      address: `host:port` of the server.
      config: the server's settings.
      spec: the server's sizes.
      server: the server's handle, in the process that started it; only `restore` needs it. With it, `checkpoint` also
        removes what a failed one has left on the server's disk. `close` leaves the server running.
      arrived: called from another thread when `take` has a batch to return or an error to raise.

    Raises:
      UserError: Reverb is missing, nothing answers at `address`, or the server has other settings or sizes.
    """

    def __init__(
        self,
        address: str,
        config: ReplayConfig,
        spec: SegmentSpec,
        *,
        server: ReplayServer | None = None,
        arrived: Callable[[], None] = lambda: None,
    ) -> None:
        self._address = address
        self._config = config
        self._spec = spec
        self._server = server
        self._arrived = arrived
        self._lock = threading.Lock()
        self._blocked_s = {"insert": 0.0, "sample": 0.0}
        self._fetcher: BatchFetcher | None = None
        self._updater: PriorityUpdater | None = None
        self._connect()

    def _connect(self) -> None:
        self._client = import_reverb().Client(self._address)
        try:
            info = self._info()
        except ReplayTimeout as error:
            raise UserError(f"replay: {error}; is the address right and the server running?") from error
        check_table(info, self._config, self._spec, self._address)

    def writer(self) -> ReverbWriter:
        """See `Replay.writer`."""
        return ReverbWriter(self._client, self._config, self._spec, lambda seconds: self._count("insert", seconds))

    def sample(self, batch_size: int, timeout_s: float) -> Batch:
        """See `Replay.sample`. The first call, and one with another batch size, start fetching ahead.

        Raises:
          RuntimeError: Reverb failed.
        """
        fetcher = self.fetch_ahead(batch_size)
        start = time.monotonic()
        arrays = fetcher.get(timeout_s)
        self._count("sample", time.monotonic() - start)
        if arrays is None:
            raise ReplayTimeout(
                f"no batch of {batch_size} within {timeout_s:g} s from {self._address}; {self.diagnosis()}"
            )
        return _batch(arrays)

    def fetch_ahead(self, batch_size: int) -> BatchFetcher:
        """Returns the fetcher of batches of this size; starts it if there is none."""
        self._config.check_batch(batch_size)
        if self._fetcher is None or self._fetcher.batch_size != batch_size:
            self._close_fetcher()
            self._fetcher = BatchFetcher(self._address, batch_size, self._arrived)
        return self._fetcher

    def take(self) -> Batch | None:
        """Returns a batch that is ready, or None if there is none. Raises RuntimeError if Reverb failed."""
        arrays = None if self._fetcher is None else self._fetcher.get(0.0)
        return None if arrays is None else _batch(arrays)

    def update_priorities(self, keys: np.ndarray, priorities: np.ndarray) -> None:
        """See `Replay.update_priorities`. Returns at once; a thread sends the priorities."""
        keys, priorities = check_priorities(keys, priorities)
        if self._updater is None:
            self._updater = PriorityUpdater(self._client)
        self._updater.put(keys, priorities)

    def flush_priorities(self, timeout_s: float) -> None:
        """Waits until the server has all priorities.

        Raises:
          ReplayTimeout: it does not have them in time.
          RuntimeError: an update failed.
        """
        if self._updater is not None and not self._updater.flush(timeout_s):
            raise ReplayTimeout(f"priorities did not reach {self._address} within {timeout_s:g} s")

    def stats(self) -> ReplayStats:
        """See `Replay.stats`."""
        info = self._info()
        return ReplayStats(
            size=info.current_size,
            inserts=info.rate_limiter_info.insert_stats.completed,
            samples=info.rate_limiter_info.sample_stats.completed,
            insert_blocked_s=self._blocked_s["insert"],
            sample_blocked_s=self._blocked_s["sample"],
        )

    @property
    def waited_s(self) -> dict[str, float]:
        """Seconds that this process has waited so far, by side (`insert`, `sample`). Does not ask the server."""
        with self._lock:
            return dict(self._blocked_s)

    def checkpoint(self, directory: str | PathLike[str], timeout_s: float = 600.0) -> None:
        """See `Replay.checkpoint`. The server answers no requests while it writes.

        The checkpoint holds the table, the priorities and the limiter's counters. It holds neither the state of
        Reverb's random generator nor unfinished episodes, whose actors start anew.

        Args:
          directory: a new folder on a file system that this process and the server's share.
          timeout_s: longest wait for the server.

        Raises:
          ReplayTimeout: the server did not finish in time.
          RuntimeError: an update of priorities failed.
          UserError: the server cannot write, e.g. because its disk is full, or `directory` cannot be written. The cause
            is then an OSError or RuntimeError.
        """
        self.flush_priorities(timeout_s)
        with checkpoint.publish(directory, KIND, self._config, self._spec) as (folder, _):
            written = self._write_checkpoint(timeout_s)
            if not written.is_dir():
                raise UserError(
                    f"{written}: the replay server wrote its checkpoint there, which cannot be seen from here; "
                    "checkpoint on the server's machine, or share its folder for temporary files"
                )
            try:
                shutil.move(written, folder / DATA)
            except shutil.Error as error:  # A list of files that could not be moved; the first says why.
                raise OSError(error.args[0][0][2]) from error
            finally:
                # On a full disk the folder is half moved: the next checkpoint needs its space.
                shutil.rmtree(written, ignore_errors=True)

    def restore(self, directory: str | PathLike[str]) -> None:
        """See `Replay.restore`: starts the server anew from the checkpoint, at the same address.

        Raises:
          UserError: this process did not start the server.
        """
        if self._server is None:
            raise UserError(
                f"replay server {self._address}: only the process that started it can restore; "
                "start it with restore_from"
            )
        checkpoint.read(directory, KIND, self._config, self._spec)
        self.close()
        self._server.restore(directory)
        self._connect()

    def close(self) -> None:
        """See `Replay.close`. Sends the priorities that still wait."""
        self._close_fetcher()
        if self._updater is not None:
            if not self._updater.close(_CLOSE_TIMEOUT_S):
                _log.warning("replay server %s takes no priorities; some are lost", self._address)
            self._updater = None

    def _close_fetcher(self) -> None:
        if self._fetcher is not None:
            if not self._fetcher.close(_CLOSE_TIMEOUT_S):
                _log.warning(
                    "replay server %s does not answer; a thread that reads from it stays behind", self._address
                )
            self._fetcher = None

    def _info(self) -> Any:
        """Returns Reverb's `TableInfo`. Raises ReplayTimeout."""
        reverb = import_reverb()
        try:
            tables = self._client.server_info(_INFO_TIMEOUT_S)
        except reverb.errors.DeadlineExceededError as error:
            raise ReplayTimeout(
                f"the replay server at {self._address} did not answer in {_INFO_TIMEOUT_S} s"
            ) from error
        except RuntimeError as error:  # all that Reverb has no name for, such as a connection that a death cuts off
            raise ReplayTimeout(f"the replay server at {self._address} did not answer: {error}") from error
        if TABLE not in tables:
            raise UserError(f"replay server {self._address}: has no table {TABLE!r}; it is another project's server")
        return tables[TABLE]

    def diagnosis(self) -> str:
        """Returns the reason why no batch came, as far as the server reveals it."""
        try:
            stats = self.stats()
        except ReplayTimeout as error:
            return str(error)
        return (
            f"the rate limiter holds it: {stats.size} segments in the table (min_size {self._config.min_size}), "
            f"{stats.inserts} inserts, {stats.samples} samples"
        )

    def _write_checkpoint(self, timeout_s: float) -> Path:
        """Has the server write its checkpoint; returns the folder. Raises as `checkpoint`."""
        try:
            return Path(self._within(timeout_s, self._client.checkpoint))
        except ReplayTimeout:  # It still writes.
            raise
        except Exception as error:
            # Half a checkpoint would keep the disk full.
            if self._server is not None:
                self._server.remove_leftovers()
            failed = f"replay server {self._address}: cannot write its checkpoint ({error})"
            if isinstance(error, IndexError):  # Reverb's RESOURCE_EXHAUSTED
                raise UserError(f"{failed}; free space there") from OSError(errno.ENOSPC, str(error))
            if isinstance(error, RuntimeError):
                raise UserError(failed) from error
            raise

    def _within(self, timeout_s: float, call: Any) -> Any:
        """Returns `call()`, run on a thread, or raises its error; a thread that takes longer is left behind.

        Raises:
          ReplayTimeout: it takes longer.
        """
        results: list[Any] = []
        errors: list[Exception] = []

        def run() -> None:
            try:
                results.append(call())
            except Exception as error:  # noqa: BLE001  (the caller raises it)
                errors.append(error)

        thread = threading.Thread(target=run, name="replay-checkpoint", daemon=True)
        thread.start()
        thread.join(timeout_s)
        if errors:
            raise errors[0]
        if not results:
            raise ReplayTimeout(f"replay server {self._address} did not finish its checkpoint in {timeout_s:g} s")
        return results[0]

    def _count(self, side: str, seconds: float) -> None:
        with self._lock:
            self._blocked_s[side] += seconds


def _batch(arrays: Arrays) -> Batch:
    table_size = int(arrays.pop("table_size")[-1])
    return Batch(**arrays, table_size=table_size)
