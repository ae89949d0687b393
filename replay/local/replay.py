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
from ..interface import ReplayConfig, ReplayStats, ReplayTimeout, check_priorities
from ..segment import Batch, SegmentClock, SegmentSpec, Step
from .limiter import RateLimiter, balanced_samples, same_limits
from .store import ABSORBING, RowStore
from .sum_tree import SumTree

_KIND = "local"
# Room for the open episodes of this many writers before the store has to grow.
_USUAL_WRITERS = 64


class LocalReplay:
    """A `Replay` in this process's memory. Safe to use from several threads.

    A single-threaded loop asks `can_insert()` and `can_sample(batch_size)` who goes next; one of them always may.
    Segments leave in the order they came, so the table is a ring.

    Args:
      config: settings.
      spec: sizes of steps and segments.
      rng: draws the segments; its state is part of a checkpoint. Owned by the replay from here on.
    """

    def __init__(self, config: ReplayConfig, spec: SegmentSpec, rng: np.random.Generator) -> None:
        self._config = config
        self._spec = spec
        self._rng = rng
        self._changed = Condition()
        self._blocked_s = {"insert": 0.0, "sample": 0.0}
        self._clear()

    def _clear(self) -> None:
        self._limiter = RateLimiter(self._config)
        # A segment owns the rows up to the start of the next one; open episodes hold a window more each.
        rows = 1 + self._config.capacity * self._spec.period + _USUAL_WRITERS * (self._spec.length + self._spec.period)
        self._store = RowStore(self._spec, rows)
        # Key k lives in place k % capacity; keys count inserts.
        self._rows = np.zeros((self._config.capacity, self._spec.length), np.int64)
        self._priorities = np.zeros(self._config.capacity)
        self._tree = SumTree(self._config.capacity)
        self._writers: list[LocalWriter] = []
        # Completed segments that the limiter still holds, in the order they were completed.
        self._waiting: deque[tuple[LocalWriter, np.ndarray]] = deque()

    @property
    def open_writers(self) -> list["LocalWriter"]:
        """Writers not closed, in the order they were made. After `restore` they carry on inside their episodes."""
        return list(self._writers)

    def writer(self) -> "LocalWriter":
        """See `Replay.writer`."""
        with self._changed:
            writer = LocalWriter(self, self._spec)
            self._writers.append(writer)
            return writer

    def can_insert(self, count: int = 1) -> bool:
        """Whether `count` more segments would go straight into the table."""
        with self._changed:
            return not self._waiting and self._limiter.can_insert(count)

    def can_sample(self, batch_size: int) -> bool:
        """Whether `sample(batch_size, ...)` would return without waiting.

        Raises:
          UserError: batches of this size can deadlock with this configuration.
        """
        self._config.check_batch(batch_size)
        with self._changed:
            return self._limiter.can_sample(batch_size)

    def sample(self, batch_size: int, timeout_s: float) -> Batch:
        """See `Replay.sample`."""
        self._config.check_batch(batch_size)
        with self._changed:
            if not self._wait("sample", lambda: self._limiter.can_sample(batch_size), timeout_s):
                raise ReplayTimeout(
                    f"no batch of {batch_size} within {timeout_s:g} s: {self._size} segments in the table (min_size "
                    f"{self._config.min_size}), {self._limiter.inserts} inserts, {self._limiter.samples} samples"
                )
            keys, probability = self._draw(batch_size)
            self._limiter.samples += batch_size
            batch = Batch(
                **self._store.gather(self._rows[keys % self._config.capacity]),
                key=keys.astype(np.uint64),
                probability=probability,
                table_size=self._size,
            )
            self._insert_waiting()
            self._changed.notify_all()
            return batch

    def update_priorities(self, keys: np.ndarray, priorities: np.ndarray) -> None:
        """See `Replay.update_priorities`."""
        keys, priorities = check_priorities(keys, priorities)
        with self._changed:
            live = (keys >= self._limiter.deletes) & (keys < self._limiter.inserts)
            self._prioritise(keys[live].astype(np.int64) % self._config.capacity, priorities[live])

    def stats(self) -> ReplayStats:
        """See `Replay.stats`."""
        with self._changed:
            return ReplayStats(
                size=self._size,
                inserts=self._limiter.inserts,
                samples=self._limiter.samples,
                insert_blocked_s=self._blocked_s["insert"],
                sample_blocked_s=self._blocked_s["sample"],
            )

    def checkpoint(self, directory: str | PathLike[str]) -> None:
        """See `Replay.checkpoint`: table, priorities, generator, counters, open writers and segments in line."""
        with self._changed, checkpoint.publish(directory, _KIND, self._config, self._spec) as (folder, manifest):
            writers = [writer._state() for writer in self._writers]
            order = {writer: index for index, writer in enumerate(self._writers)}
            waiting = np.array([rows for _, rows in self._waiting], np.int64).reshape(-1, self._spec.length)
            manifest["counters"] = {name: getattr(self._limiter, name) for name in ("inserts", "samples", "deletes")}
            manifest["writers"] = [{name: state[name] for name in ("rows", "last_discount")} for state in writers]
            manifest["waiting_writers"] = [order[writer] for writer, _ in self._waiting]
            manifest["generator"] = _plain(self._rng.bit_generator.state)
            np.savez(
                folder / "table.npz",
                rows=self._rows,
                priorities=self._priorities,
                waiting=waiting,
                **{f"window_{index}": state["window"] for index, state in enumerate(writers)},
                **{f"store_{name}": value for name, value in self._store.state().items()},
            )

    def restore(self, directory: str | PathLike[str]) -> None:
        """See `Replay.restore`. `open_writers` are then the checkpoint's; writers made before no longer work."""
        manifest, old_config = checkpoint.read(directory, _KIND, self._config, self._spec)
        path = Path(directory) / "table.npz"
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = dict(file)
        except (OSError, ValueError, zipfile.BadZipFile) as error:
            raise FormatError(f"{path}: cannot be read ({error}); take another checkpoint") from error
        with self._changed:
            for writer in self._writers:
                writer._replay = None
            self._clear()
            self._limiter = RateLimiter(self._config, **manifest["counters"])
            if not same_limits(old_config, self._config):
                self._limiter.samples = balanced_samples(self._config, self._limiter.inserts)
            self._store.load(
                {name.removeprefix("store_"): a for name, a in arrays.items() if name.startswith("store_")}
            )
            self._rows = arrays["rows"]
            places = np.arange(self._limiter.deletes, self._limiter.inserts) % self._config.capacity
            self._prioritise(places, arrays["priorities"][places])
            for index, state in enumerate(manifest["writers"]):
                self.writer()._load({**state, "window": arrays[f"window_{index}"]})
            for index, rows in zip(manifest["waiting_writers"], arrays["waiting"], strict=True):
                self._waiting.append((self._writers[index], rows))
                self._writers[index]._in_flight += 1
            state = manifest["generator"]
            if type(self._rng.bit_generator).__name__ != state["bit_generator"]:
                self._rng = np.random.Generator(getattr(np.random, state["bit_generator"])())
            self._rng.bit_generator.state = state
            # Newer settings of the limiter may let in what the old ones held.
            self._insert_waiting()

    def close(self) -> None:
        """Closes the writers that are still open."""
        for writer in self.open_writers:
            writer.close()

    @property
    def _size(self) -> int:
        return self._limiter.inserts - self._limiter.deletes

    def _wait(self, side: str, ready: Callable[[], bool], timeout_s: float) -> bool:
        if ready():
            return True
        start = time.monotonic()
        done = self._changed.wait_for(ready, timeout_s)
        self._blocked_s[side] += time.monotonic() - start
        return done

    def _draw(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns keys `[count]` int64 and the probability of each."""
        capacity, size, oldest = self._config.capacity, self._size, self._limiter.deletes
        draws = self._rng.random(count)
        if self._tree.total == 0:
            return oldest + (draws * size).astype(np.int64), np.full(count, 1 / size)
        places = self._tree.find(draws * self._tree.total)
        return oldest + (places - oldest) % capacity, self._tree[places] / self._tree.total

    def _prioritise(self, places: np.ndarray, priorities: np.ndarray) -> None:
        if len(places):
            self._priorities[places] = priorities
            # As in Reverb, a priority of 0 weighs nothing even where the exponent is 0.
            weights = np.where(priorities == 0, 0.0, priorities**self._config.priority_exponent)
            self._tree.set(places, weights)

    def _offer(self, writer: "LocalWriter", rows: np.ndarray) -> None:
        """Puts a completed segment in line and lets in whatever the limiter allows."""
        self._store.hold(rows)
        self._waiting.append((writer, rows))
        writer._in_flight += 1
        self._insert_waiting()
        self._changed.notify_all()

    def _insert_waiting(self) -> None:
        while self._waiting and self._limiter.can_insert():
            writer, rows = self._waiting.popleft()
            writer._in_flight -= 1
            if self._size == self._config.capacity:
                self._store.release(self._rows[self._limiter.deletes % self._config.capacity])
                self._limiter.deletes += 1
            place = self._limiter.inserts % self._config.capacity
            self._rows[place] = rows
            self._prioritise(np.array([place]), np.array([self._config.initial_priority]))
            self._limiter.inserts += 1

    def _forget(self, writer: "LocalWriter") -> None:
        """Drops what a closing writer has in line."""
        for _, rows in (entry for entry in self._waiting if entry[0] is writer):
            self._store.release(rows)
        self._waiting = deque(entry for entry in self._waiting if entry[0] is not writer)
        self._writers.remove(writer)
        self._insert_waiting()
        self._changed.notify_all()


class LocalWriter:
    """A `SegmentWriter` into a `LocalReplay`, which makes it."""

    def __init__(self, replay: LocalReplay, spec: SegmentSpec) -> None:
        self._replay: LocalReplay | None = replay
        self._spec = spec
        self._clock = SegmentClock(spec)
        self._window: deque[int] = deque()
        self._in_flight = 0

    def append(self, step: Step) -> None:
        """See `SegmentWriter.append`."""
        replay = self._open()
        self._clock.check_open()
        row = self._spec.row(step)
        config = replay._config
        with replay._changed:
            if not replay._wait("insert", lambda: self._in_flight < config.max_in_flight, config.insert_timeout_s):
                raise ReplayTimeout(
                    f"{self._in_flight} segments have waited {config.insert_timeout_s:g} s for the rate limiter; "
                    "sample, or ask can_insert() before a move"
                )
            self._push(replay, replay._store.add(row), step.discount)

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
            if not replay._wait("insert", lambda: not self._in_flight, timeout_s):
                raise ReplayTimeout(f"{self._in_flight} segments still wait for the rate limiter after {timeout_s:g} s")

    def close(self) -> None:
        """See `SegmentWriter.close`."""
        replay = self._replay
        if replay is not None:
            with replay._changed:
                self._replay = None
                self._drop_window(replay)
                replay._forget(self)

    def _open(self) -> LocalReplay:
        if self._replay is None:
            raise ValueError("the writer is closed, or its replay has been restored since: ask for a new one")
        return self._replay

    def _push(self, replay: LocalReplay, row: int, discount: float) -> None:
        self._window.append(row)
        if len(self._window) > self._spec.length:
            replay._store.release(np.array([self._window.popleft()]))
        if self._clock.advance(discount):
            replay._offer(self, np.array(self._window))

    def _drop_window(self, replay: LocalReplay) -> None:
        replay._store.release(np.array(self._window, np.int64))
        self._window.clear()
        self._clock.reset()

    def _state(self) -> dict[str, Any]:
        window = np.array(self._window, np.int64)
        return {"rows": self._clock.rows, "last_discount": self._clock.last_discount, "window": window}

    def _load(self, state: dict[str, Any]) -> None:
        self._clock.rows, self._clock.last_discount = state["rows"], state["last_discount"]
        self._window.extend(state["window"].tolist())


def _plain(state: Any) -> Any:
    """Returns a bit generator's state as JSON can hold it; its setter takes lists for arrays."""
    if isinstance(state, dict):
        return {name: _plain(value) for name, value in state.items()}
    return state.tolist() if isinstance(state, np.ndarray | np.generic) else state
