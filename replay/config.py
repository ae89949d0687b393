"""Settings of a replay."""

from dataclasses import asdict, dataclass, replace

import numpy as np

from ..env.errors import UserError


@dataclass(frozen=True)
class ReplayConfig:
    """Settings of a replay.

    Attributes:
      capacity: most segments that the table holds; the oldest leaves first.
      min_size: segments that the table needs before the first sample, from 1 to `capacity`. Until then inserts are not
        limited.
      samples_per_insert: times that an inserted segment is sampled on average. This ratio alone sets the pace of
        actors and learner.
      error_buffer: samples that the learner may be ahead of that ratio, or behind it, before one side is held. At least
        `max(1, samples_per_insert)`, and at least half of `samples_per_insert` + batch size.
      priority_exponent: a segment is drawn with probability proportional to its priority to this power; 0 draws
        uniformly. A priority of 0 is never drawn unless all are 0.
      initial_priority: priority of a new segment until the learner sets it.
      max_in_flight: segments of one writer that may wait for the rate limiter before `append` waits too.
      insert_timeout_s: seconds that `append` then waits before it raises `ReplayTimeout`.
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

    def paces_like(self, other: "ReplayConfig") -> bool:
        """Returns whether the rate limiters of the two configurations are the same."""
        names = ("samples_per_insert", "min_size", "error_buffer")
        return all(getattr(self, name) == getattr(other, name) for name in names)

    def balanced_samples(self, inserts: int) -> int:
        """Returns the count of samples that puts the limiter in the middle of its range after `inserts` inserts."""
        return max(0, round((inserts - self.min_size) * self.samples_per_insert))
