"""The replay of a single process: no server, no TensorFlow, and exact to the bit across checkpoint and restore."""

import time
import zipfile
from collections import deque
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from threading import Condition
from typing import Any

import numpy as np

from ...env.errors import FormatError
from .. import checkpoint
from ..config import ReplayConfig
from ..interface import ReplayStats, ReplayTimeout, check_priorities
from ..segment import Batch, SegmentClock, SegmentSpec, Step
from .store import ABSORBING
from .table import Table

_KIND = "local"


class LocalReplay:
    """A `Replay` in this process's memory. Safe to use from several threads.

    A single-threaded loop asks `can_insert()` and `can_sample(batch_size)` which side is next; one of them always can.

    Args:
      config: settings.
      spec: sizes of steps and segments.
      rng: draws the segments; its state is part of a checkpoint. The replay owns it from here on.

    Attributes:
      table: the segments.
    """

    def __init__(self, config: ReplayConfig, spec: SegmentSpec, rng: np.random.Generator) -> None:
        self._config = config
        self._spec = spec
        self._rng = rng
        self._changed = Condition()
        self._blocked_s = {"insert": 0.0, "sample": 0.0}
        self._clear()

    def _clear(self) -> None:
        self.table = Table(self._config, self._spec)
        self._writers: list[LocalWriter] = []
        # Completed segments that the limiter still holds, in the order they were completed.
        self._waiting: deque[tuple[LocalWriter, np.ndarray]] = deque()

    @property
    def open_writers(self) -> list["LocalWriter"]:
        """The writers that are not closed, in the order they were made; after `restore`, those of the checkpoint."""
        return list(self._writers)

    @property
    def waiting(self) -> int:
        """Completed segments that the rate limiter holds."""
        return len(self._waiting)

    def writer(self) -> "LocalWriter":
        """See `Replay.writer`."""
        with self._changed:
            writer = LocalWriter(self, self._spec)
            self._writers.append(writer)
            return writer

    def can_insert(self, count: int = 1) -> bool:
        """Returns whether `count` more segments would go straight into the table."""
        with self._changed:
            return not self._waiting and self.table.limiter.can_insert(count)

    def can_sample(self, batch_size: int) -> bool:
        """Returns whether `sample(batch_size, ...)` would return without waiting.

        Raises:
          UserError: batches of this size can deadlock with this configuration.
        """
        self._config.check_batch(batch_size)
        with self._changed:
            return self.table.limiter.can_sample(batch_size)

    def sample(self, batch_size: int, timeout_s: float) -> Batch:
        """See `Replay.sample`."""
        self._config.check_batch(batch_size)
        with self._changed:
            if not self._wait("sample", lambda: self.table.limiter.can_sample(batch_size), timeout_s):
                limiter = self.table.limiter
                raise ReplayTimeout(
                    f"no batch of {batch_size} within {timeout_s:g} s: {len(self.table)} segments in the table "
                    f"(min_size {self._config.min_size}), {limiter.inserts} inserts, {limiter.samples} samples"
                )
            keys, probability = self.table.draw(batch_size, self._rng)
            batch = Batch(
                **self.table.gather(keys),
                key=keys.astype(np.uint64),
                probability=probability,
                table_size=len(self.table),
            )
            self._insert_waiting()
            self._changed.notify_all()
            return batch

    def update_priorities(self, keys: np.ndarray, priorities: np.ndarray) -> None:
        """See `Replay.update_priorities`."""
        keys, priorities = check_priorities(keys, priorities)
        with self._changed:
            self.table.update_priorities(keys, priorities)

    def stats(self) -> ReplayStats:
        """See `Replay.stats`."""
        with self._changed:
            return ReplayStats(
                size=len(self.table),
                inserts=self.table.limiter.inserts,
                samples=self.table.limiter.samples,
                insert_blocked_s=self._blocked_s["insert"],
                sample_blocked_s=self._blocked_s["sample"],
            )

    def checkpoint(self, directory: str | PathLike[str]) -> None:
        """See `Replay.checkpoint`: table, priorities, counts, generator, open writers and waiting segments."""
        with self._changed, checkpoint.publish(directory, _KIND, self._config, self._spec) as (folder, manifest):
            writers = [writer.state() for writer in self._writers]
            order = {writer: index for index, writer in enumerate(self._writers)}
            waiting = np.array([rows for _, rows in self._waiting], np.int64).reshape(-1, self._spec.length)
            limiter = self.table.limiter
            manifest["counters"] = {name: getattr(limiter, name) for name in ("inserts", "samples", "deletes")}
            manifest["writers"] = [{name: state[name] for name in ("rows", "last_discount")} for state in writers]
            manifest["waiting_writers"] = [order[writer] for writer, _ in self._waiting]
            manifest["generator"] = _plain(self._rng.bit_generator.state)
            np.savez(
                folder / "table.npz",
                **self.table.arrays(),
                waiting=waiting,
                **{f"window_{index}": state["window"] for index, state in enumerate(writers)},
                **{f"store_{name}": value for name, value in self.table.store.state().items()},
            )

    def restore(self, directory: str | PathLike[str]) -> None:
        """See `Replay.restore`. The checkpoint's open writers continue their episodes: `open_writers`."""
        manifest, old_config = checkpoint.read(directory, _KIND, self._config, self._spec)
        path = Path(directory) / "table.npz"
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = dict(file)
        except (OSError, ValueError, zipfile.BadZipFile) as error:
            raise FormatError(f"{path}: cannot be read ({error}); take another checkpoint") from error
        with self._changed:
            for writer in self._writers:
                writer.detach()
            self._clear()
            self.table.load(arrays, counts=manifest["counters"], old_config=old_config)
            for index, state in enumerate(manifest["writers"]):
                self.writer().load({**state, "window": arrays[f"window_{index}"]})
            for index, rows in zip(manifest["waiting_writers"], arrays["waiting"], strict=True):
                self._waiting.append((self._writers[index], rows))
                self._writers[index].in_flight += 1
            state = manifest["generator"]
            if type(self._rng.bit_generator).__name__ != state["bit_generator"]:
                self._rng = np.random.Generator(getattr(np.random, state["bit_generator"])())
            self._rng.bit_generator.state = state
            # The limiter's settings may have changed since, and allow what the old ones held.
            self._insert_waiting()

    def close(self) -> None:
        """Closes the writers that are still open."""
        for writer in self.open_writers:
            writer.close()

    # For `LocalWriter`, under the lock.

    def _wait(self, side: str, ready: Callable[[], bool], timeout_s: float) -> bool:
        if ready():
            return True
        start = time.monotonic()
        done = self._changed.wait_for(ready, timeout_s)
        self._blocked_s[side] += time.monotonic() - start
        return done

    def _offer(self, writer: "LocalWriter", rows: np.ndarray) -> None:
        """Queues a completed segment and inserts as many as the limiter allows."""
        self.table.store.hold(rows)
        self._waiting.append((writer, rows))
        writer.in_flight += 1
        self._insert_waiting()
        self._changed.notify_all()

    def _insert_waiting(self) -> None:
        while self._waiting and self.table.limiter.can_insert():
            writer, rows = self._waiting.popleft()
            writer.in_flight -= 1
            self.table.insert(rows)

    def _forget(self, writer: "LocalWriter") -> None:
        """Drops the waiting segments of a writer that closes."""
        for _, rows in (entry for entry in self._waiting if entry[0] is writer):
            self.table.store.release(rows)
        self._waiting = deque(entry for entry in self._waiting if entry[0] is not writer)
        self._writers.remove(writer)
        self._insert_waiting()
        self._changed.notify_all()


class LocalWriter:
    """A `SegmentWriter` into a `LocalReplay`; `LocalReplay.writer` makes it.

    Attributes:
      window: store numbers of the episode's last rows, which later segments may still contain.
      in_flight: completed segments that wait for the rate limiter.
    """

    def __init__(self, replay: LocalReplay, spec: SegmentSpec) -> None:
        self._replay: LocalReplay | None = replay
        self._spec = spec
        self._clock = SegmentClock(spec)
        self.window: deque[int] = deque()
        self.in_flight = 0

    def append(self, step: Step) -> None:
        """See `SegmentWriter.append`."""
        replay = self._open()
        self._clock.check_open()
        row = self._spec.row(step)
        config = replay._config
        with replay._changed:
            if not replay._wait("insert", lambda: self.in_flight < config.max_in_flight, config.insert_timeout_s):
                raise ReplayTimeout(
                    f"{self.in_flight} segments have waited {config.insert_timeout_s:g} s for the rate limiter; "
                    "sample, or ask can_insert() before a move"
                )
            self._push(replay, replay.table.store.add(row), step.discount)

    def end_episode(self, cut: bool = False) -> None:
        """See `SegmentWriter.end_episode`."""
        replay = self._open()
        with replay._changed:
            for _ in range(0 if cut else self._clock.padding()):
                self._push(replay, ABSORBING, 0.0)
            self._drop_window(replay)

    def flush(self, timeout_s: float) -> None:
        """See `SegmentWriter.flush`."""
        replay = self._open()
        with replay._changed:
            if not replay._wait("insert", lambda: not self.in_flight, timeout_s):
                raise ReplayTimeout(f"{self.in_flight} segments still wait for the rate limiter after {timeout_s:g} s")

    def close(self) -> None:
        """See `SegmentWriter.close`."""
        replay = self._replay
        if replay is not None:
            with replay._changed:
                self._replay = None
                self._drop_window(replay)
                replay._forget(self)

    def detach(self) -> None:
        """Closes the writer of a replay whose content is being replaced."""
        self._replay = None

    def state(self) -> dict[str, Any]:
        """Returns what `load` needs to continue inside the episode."""
        window = np.array(self.window, np.int64)
        return {"rows": self._clock.rows, "last_discount": self._clock.last_discount, "window": window}

    def load(self, state: dict[str, Any]) -> None:
        """Puts back what `state` returned, in a new writer."""
        self._clock.rows, self._clock.last_discount = state["rows"], state["last_discount"]
        self.window.extend(state["window"].tolist())

    def _open(self) -> LocalReplay:
        if self._replay is None:
            raise ValueError("the writer is closed, or its replay has been restored since: ask for a new one")
        return self._replay

    def _push(self, replay: LocalReplay, row: int, discount: float) -> None:
        self.window.append(row)
        if len(self.window) > self._spec.length:
            replay.table.store.release(np.array([self.window.popleft()]))
        if self._clock.advance(discount):
            replay._offer(self, np.array(self.window))

    def _drop_window(self, replay: LocalReplay) -> None:
        replay.table.store.release(np.array(self.window, np.int64))
        self.window.clear()
        self._clock.reset()


def _plain(state: Any) -> Any:
    """Returns a bit generator's state as JSON values; its setter takes lists for arrays."""
    if isinstance(state, dict):
        return {name: _plain(value) for name, value in state.items()}
    return state.tolist() if isinstance(state, np.ndarray | np.generic) else state
