"""Sends priorities to a Reverb server without making the learner wait."""

import threading
from typing import Any

import numpy as np

from .table import TABLE

MOST_PENDING = 100_000


class PriorityUpdater:
    """Collects priorities and sends them from a thread.

    Only the newest priority of a key is kept, and at most `MOST_PENDING` keys: if the server takes none for long, the
    oldest are dropped. `mutate_priorities` waits without limit for a server that is gone; the thread, a daemon, is then
    left behind.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._changed = threading.Condition()
        self._pending: dict[int, float] = {}
        self._sending = False
        self._closing = False
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="replay-priorities", daemon=True)
        self._thread.start()

    def put(self, keys: np.ndarray, priorities: np.ndarray) -> None:
        """Queues `[N]` updates.

        Raises:
          RuntimeError: an earlier update failed.
        """
        with self._changed:
            self._raise_failure()
            self._pending.update(zip(keys.tolist(), priorities.tolist(), strict=True))
            for key in list(self._pending)[: max(0, len(self._pending) - MOST_PENDING)]:
                del self._pending[key]
            self._changed.notify_all()

    def flush(self, timeout_s: float) -> bool:
        """Waits until all updates have reached the server; returns whether they did in time.

        Raises:
          RuntimeError: an update failed.
        """
        with self._changed:
            sent = self._changed.wait_for(lambda: not (self._pending or self._sending), timeout_s)
            self._raise_failure()
            return sent

    def close(self, timeout_s: float) -> bool:
        """Ends the thread once everything is sent; returns whether everything was within `timeout_s`."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(timeout_s)
        return not self._thread.is_alive() and self._error is None

    def _raise_failure(self) -> None:
        if self._error is not None:
            raise RuntimeError(f"updating priorities failed: {self._error}") from self._error

    def _run(self) -> None:
        while True:
            with self._changed:
                self._sending = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._pending or self._closing)
                if not self._pending:
                    return
                updates, self._pending = self._pending, {}
                self._sending = True
            try:
                self._client.mutate_priorities(TABLE, updates)
            except Exception as error:  # noqa: BLE001  (the next `put` or `flush` raises it)
                with self._changed:
                    self._error, self._sending = error, False
                    self._pending.clear()
                    self._changed.notify_all()
                return
