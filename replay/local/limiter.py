"""The rate limiter of the in-process replay, with the rules of Reverb's `SampleToInsertRatio`."""

from dataclasses import dataclass

from ..config import ReplayConfig


@dataclass
class RateLimiter:
    """Holds `inserts * samples_per_insert - samples` within `config.error_range`.

    Rules after Reverb's `rate_limiter.cc`.

    Attributes:
      config: the replay's settings.
      inserts, samples, deletes: operations since the table began.
    """

    config: ReplayConfig
    inserts: int = 0
    samples: int = 0
    deletes: int = 0

    def can_insert(self, count: int = 1) -> bool:
        """Returns whether `count` more inserts stay in range; always up to `min_size` segments."""
        if self.inserts + count - self.deletes <= self.config.min_size:
            return True
        return (self.inserts + count) * self.config.samples_per_insert - self.samples <= self.config.error_range[1]

    def can_sample(self, count: int = 1) -> bool:
        """Returns whether `count` more samples stay in range; never with fewer than `min_size` segments."""
        if self.inserts - self.deletes < self.config.min_size:
            return False
        return self.inserts * self.config.samples_per_insert - self.samples - count >= self.config.error_range[0]
