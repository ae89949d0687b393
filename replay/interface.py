"""What a replay does, whichever implementation is behind it."""

from dataclasses import asdict, dataclass, replace
from os import PathLike
from typing import Any, Protocol

import numpy as np

from ..env.errors import UserError
from .segment import Batch, Step


class ReplayTimeout(Exception):
    """A wait ended before the replay let the caller go on. Nothing is lost: the same call may be made again."""


@dataclass(frozen=True)
class ReplayConfig:
    """Settings of a replay.

    Attributes:
      capacity: most segments kept; the oldest leaves first.
      min_size: segments needed before the first sample; until then inserts go ahead freely. From 1 to `capacity`.
      samples_per_insert: times each inserted segment is sampled on average. This ratio is the only thing that paces
        actors against the learner.
      error_buffer: how far samples may run ahead of or behind that ratio, in samples, before one side is held. At least
        `max(1, samples_per_insert)`, and at least half of `samples_per_insert` + batch size.
      priority_exponent: a segment is drawn with probability proportional to its priority to this power; 0 draws
        uniformly. A priority of 0 is never drawn unless all are 0.
      initial_priority: priority of a new segment until the learner gives it one.
      max_in_flight: segments of one writer that may wait for room before `append` waits too.
      insert_timeout_s: seconds that `append` waits then, before it raises `ReplayTimeout`.
      servers: Reverb servers that share capacity, minimum and buffer evenly; each actor writes to one of them.

    Raises:
      UserError: a setting is out of range.
    """

    capacity: int
    min_size: int
    samples_per_insert: float
    error_buffer: float
    priority_exponent: float = 0.6
    initial_priority: float = 1.0
    max_in_flight: int = 16
    insert_timeout_s: float = 10.0
    servers: int = 1

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not np.isfinite(value):
                raise UserError(f"replay: {name} is {value}; it must be a finite number")
        if not 1 <= self.min_size <= self.capacity:
            raise UserError(f"replay: min_size is {self.min_size}; it must be between 1 and capacity = {self.capacity}")
        if self.samples_per_insert <= 0:
            raise UserError(f"replay: samples_per_insert is {self.samples_per_insert}; it must be above 0")
        least = max(1.0, self.samples_per_insert)
        if self.error_buffer < least:
            raise UserError(
                f"replay: error_buffer is {self.error_buffer}; it must be at least max(1, samples_per_insert) = "
                f"{least}, or inserts and samples could block each other for ever"
            )
        for name in ("priority_exponent", "initial_priority", "insert_timeout_s"):
            if getattr(self, name) < 0:
                raise UserError(f"replay: {name} is {getattr(self, name)}; it must not be negative")
        if self.max_in_flight < 1:
            raise UserError(f"replay: max_in_flight is {self.max_in_flight}; it must be at least 1")
        if not 1 <= self.servers <= self.min_size:
            raise UserError(f"replay: servers is {self.servers}; it must be between 1 and min_size = {self.min_size}")
        if self.servers > 1:
            try:
                self.share()
            except UserError as error:
                raise UserError(
                    f"replay: of {self.servers} servers, each has a share that cannot be: {error}"
                ) from error

    def share(self) -> "ReplayConfig":
        """Returns the settings of one server."""
        if self.servers == 1:
            return self
        return replace(
            self,
            servers=1,
            capacity=self.capacity // self.servers,
            min_size=-(-self.min_size // self.servers),
            error_buffer=self.error_buffer / self.servers,
        )

    @property
    def error_range(self) -> tuple[float, float]:
        """Least and greatest allowed value of `inserts * samples_per_insert - samples`."""
        centre = self.samples_per_insert * self.min_size
        return centre - self.error_buffer, centre + self.error_buffer

    def check_batch(self, batch_size: int) -> None:
        """Raises UserError if batches of this size could leave inserts and samples both waiting for ever."""
        if batch_size < 1:
            raise UserError(f"replay: batch size is {batch_size}; it must be at least 1")
        needed = self.servers * (self.samples_per_insert + batch_size) / 2
        if self.error_buffer < needed:
            times = "" if self.servers == 1 else f"{self.servers} servers * "
            raise UserError(
                f"replay: error_buffer is {self.error_buffer}; batches of {batch_size} need at least "
                f"{times}(samples_per_insert + batch size) / 2 = {needed:g}, or inserts and samples could block each "
                "other for ever"
            )


@dataclass(frozen=True)
class ReplayStats:
    """Where a replay stands.

    Attributes:
      size: segments in the table.
      inserts: segments ever inserted, as the rate limiter counts them (restored with a checkpoint).
      samples: segments ever sampled, as the rate limiter counts them. A Reverb client fetches a few batches ahead of
        `sample()`, and those count already.
      insert_blocked_s: seconds that writers of this process waited in `append` and `flush`.
      sample_blocked_s: seconds that this process waited in `sample`.
    """

    size: int
    inserts: int
    samples: int
    insert_blocked_s: float
    sample_blocked_s: float

    def as_dict(self) -> dict[str, Any]:
        """Returns the fields by name, for metric writers."""
        return asdict(self)


class SegmentWriter(Protocol):
    """Turns the steps of one game at a time into segments of the table. One thread uses it."""

    def append(self, step: Step) -> None:
        """Adds a step. A segment that it completes goes to the table as soon as the rate limiter lets it.

        Raises:
          ReplayTimeout: `max_in_flight` segments have waited `insert_timeout_s`; the step has not been taken.
          ValueError: the step does not fit the segment spec, or the episode is over.
        """

    def end_episode(self, cut: bool = False) -> None:
        """Completes the segments of the episode with absorbing rows; does nothing after no step. Never waits.

        Args:
          cut: the game goes on, but its steps do not follow here: segments that are not complete are dropped.

        Raises:
          ValueError: the last step's discount is not 0, though the episode is not cut.
        """

    def flush(self, timeout_s: float) -> None:
        """Waits until every completed segment is in the table.

        Raises:
          ReplayTimeout: the rate limiter still holds some; they stay in line.
        """

    def close(self) -> None:
        """Drops the unfinished episode and whatever has not been flushed. Never waits."""


class Replay(Protocol):
    """A table of segments. Order of stopping: sampling first, then writers (`flush`, `close`), then the replay."""

    def writer(self) -> SegmentWriter:
        """Returns a new writer; one per game being played."""

    def sample(self, batch_size: int, timeout_s: float) -> Batch:
        """Draws `batch_size` segments independently, with replacement.

        Raises:
          ReplayTimeout: the rate limiter did not allow it in time.
          UserError: batches of this size can deadlock with this configuration.
        """

    def update_priorities(self, keys: np.ndarray, priorities: np.ndarray) -> None:
        """Sets priorities. Keys that have left the table are skipped; of equal keys the last counts.

        Args:
          keys: `[N]` uint64, from batches.
          priorities: `[N]`, finite and not negative.

        Raises:
          ValueError: shapes differ, or a priority is negative or not finite.
        """

    def stats(self) -> ReplayStats:
        """Returns where the replay stands.

        Raises:
          ReplayTimeout: the server does not answer.
        """

    def checkpoint(self, directory: str | PathLike[str]) -> None:
        """Writes everything that `restore` needs into a new folder, which appears whole or not at all.

        Raises:
          UserError: the folder is there already, or cannot be written.
        """

    def restore(self, directory: str | PathLike[str]) -> None:
        """Replaces all content by a checkpoint's. To be called before there are writers; older ones stop working.

        Capacity, priority exponent and segment spec must be the checkpoint's. The rate limiter in force is always this
        replay's: where its settings differ from the checkpoint's, its counters are set to the exact ratio, so that
        neither side starts blocked.

        Raises:
          FormatError: not a whole replay checkpoint of this version and kind.
          UserError: a setting differs from the checkpoint's.
        """

    def close(self) -> None:
        """Ends what this object started, within seconds."""


def check_priorities(keys: np.ndarray, priorities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns both as `[N]` uint64 and float64, or raises ValueError as `Replay.update_priorities` says."""
    keys = np.asarray(keys, np.uint64)
    priorities = np.asarray(priorities, np.float64)
    if keys.ndim != 1 or keys.shape != priorities.shape:
        raise ValueError(f"keys have shape {keys.shape} and priorities {priorities.shape}, expected [N] twice")
    if not np.all(np.isfinite(priorities) & (priorities >= 0)):
        raise ValueError("priorities must be finite and not negative")
    return keys, priorities
