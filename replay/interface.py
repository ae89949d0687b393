"""The interface of a replay: a table of segments that actors write to and the learner samples from."""

from dataclasses import asdict, dataclass
from os import PathLike
from typing import Any, Protocol

import numpy as np

from .segment import Batch, Step


class ReplayTimeout(Exception):
    """The replay held the caller for longer than it would wait. Nothing is lost: the same call may be made again."""


@dataclass(frozen=True)
class ReplayStats:
    """Sizes and counts of a replay at one point in time.

    Attributes:
      size: segments in the table.
      inserts: segments inserted since the table began, as the rate limiter counts them; a checkpoint keeps the count.
      samples: segments sampled since then. A Reverb client fetches a few batches before `sample()` asks for them; these
        count already.
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
          cut: the game continues, but its further steps are not recorded; segments that are not complete are dropped.

        Raises:
          ValueError: the last step's discount is not 0, though the episode is not cut.
        """

    def flush(self, timeout_s: float) -> None:
        """Waits until every completed segment is in the table.

        Raises:
          ReplayTimeout: the rate limiter still holds some; they keep waiting.
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
        """Returns sizes and counts.

        Raises:
          ReplayTimeout: the server does not answer.
        """

    def checkpoint(self, directory: str | PathLike[str]) -> None:
        """Writes everything that `restore` needs into a new folder, which appears whole or not at all.

        Raises:
          UserError: the folder is there already, or cannot be written.
        """

    def restore(self, directory: str | PathLike[str]) -> None:
        """Replaces all content by that of a checkpoint. Writers made before the call no longer work.

        Capacity, priority exponent and segment spec must equal those of the checkpoint. The rate limiter keeps this
        replay's settings: if they differ from the checkpoint's, its count of samples is set to the exact ratio, so that
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
