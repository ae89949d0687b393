"""Fetches batches from a Reverb server on a thread, ahead of the learner."""

import queue
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from .lazy_import import import_reverb
from .table import TABLE

# Reverb's sampler waits this long for the rate limiter before the thread checks whether it should end. A time-out ends
# the iterator, so each one costs a new stream.
_LIMITER_TIMEOUT_MS = 200
_SIGNATURE_TIMEOUT_S = 30
_RETRY_S = 0.5

Arrays = dict[str, np.ndarray]


class BatchFetcher:
    """Keeps one batch ready while the next one is on its way.

    A Reverb sampler waits without limit for a server that is gone, and nothing can wake it; the thread, a daemon, is
    then left behind.

    Args:
      address: of the server.
      batch_size: segments per batch.
      arrived: called from the thread when `get` has something to return or to raise.
    """

    def __init__(self, address: str, batch_size: int, arrived: Callable[[], None] = lambda: None) -> None:
        self.batch_size = batch_size
        self._arrived = arrived
        self._address = address
        # Up to three batches are counted as sampled before `get` returns them: one here, one being put, one in Reverb.
        self._ready: queue.Queue[Arrays] = queue.Queue(maxsize=1)
        self._stopping = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="replay-fetcher", daemon=True)
        self._thread.start()

    def get(self, timeout_s: float) -> Arrays | None:
        """Returns field name -> `[B, ...]`, with `key`, `probability`, `table_size` `[B]`; None if none came in time.

        Raises:
          RuntimeError: Reverb gave up for another reason than time.
        """
        try:
            return self._ready.get(timeout=timeout_s) if timeout_s > 0 else self._ready.get_nowait()
        except queue.Empty:
            if self._error is not None:
                raise RuntimeError(f"reading from the replay server failed: {self._error}") from self._error
            return None

    def close(self, timeout_s: float) -> bool:
        """Ends the thread; returns whether it did within `timeout_s`."""
        self._stopping.set()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        reverb = import_reverb()
        rest: list[Arrays] = []
        dataset = None
        while not self._stopping.is_set():
            try:
                if dataset is None:
                    dataset = reverb.TrajectoryDataset.from_table_signature(
                        self._address,
                        TABLE,
                        max_in_flight_samples_per_worker=self.batch_size,
                        num_workers_per_iterator=1,
                        rate_limiter_timeout_ms=_LIMITER_TIMEOUT_MS,
                        get_signature_timeout_secs=_SIGNATURE_TIMEOUT_S,
                    ).batch(self.batch_size)
                # Ends when the limiter has held the sampler for the time-out; its last element may be part of a batch.
                for element in dataset.as_numpy_iterator():
                    rest = self._deliver([*rest, _arrays(element)])
                    if self._stopping.is_set():
                        return
            except reverb.errors.DeadlineExceededError:
                self._stopping.wait(_RETRY_S)  # The server is silent; it may come back.
            except Exception as error:  # noqa: BLE001  (TensorFlow's errors share no narrower base; get() raises it)
                self._error = error
                self._arrived()
                return

    def _deliver(self, parts: list[Arrays]) -> list[Arrays]:
        """Queues a batch once `parts` hold enough segments; returns the segments that are left over."""
        count = sum(len(part["key"]) for part in parts)
        if count < self.batch_size:
            return parts
        whole = parts[0] if len(parts) == 1 else {n: np.concatenate([p[n] for p in parts]) for n in parts[0]}
        batch = {name: value[: self.batch_size] for name, value in whole.items()}
        while not self._stopping.is_set():
            try:
                self._ready.put(batch, timeout=_RETRY_S)
                self._arrived()
                break
            except queue.Full:
                continue
        return [{name: value[self.batch_size :] for name, value in whole.items()}] if count > self.batch_size else []


def _arrays(element: Any) -> Arrays:
    info = element.info
    return {**element.data, "key": info.key, "probability": info.probability, "table_size": info.table_size}
