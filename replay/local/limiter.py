"""The rate limiter of the in-process replay: the same rules, to the letter, as Reverb's `SampleToInsertRatio`."""

from dataclasses import dataclass

from ..interface import ReplayConfig


@dataclass
class RateLimiter:
    """Holds `inserts * samples_per_insert - samples` within `config.error_range`.

    Rules after Reverb's `rate_limiter.cc`. Attributes count operations since the table began.
    """

    config: ReplayConfig
    inserts: int = 0
    samples: int = 0
    deletes: int = 0

    def can_insert(self, count: int = 1) -> bool:
        """Whether `count` more inserts stay in range. Up to `min_size` segments they always do."""
        if self.inserts + count - self.deletes <= self.config.min_size:
            return True
        return (self.inserts + count) * self.config.samples_per_insert - self.samples <= self.config.error_range[1]

    def can_sample(self, count: int = 1) -> bool:
        """Whether `count` more samples stay in range; never with fewer than `min_size` segments."""
        if self.inserts - self.deletes < self.config.min_size:
            return False
        return self.inserts * self.config.samples_per_insert - self.samples - count >= self.config.error_range[0]


def balanced_samples(config: ReplayConfig, inserts: int) -> int:
    """Returns the count of samples that puts the limiter in the middle of its range after `inserts` inserts."""
    return max(0, round((inserts - config.min_size) * config.samples_per_insert))


def same_limits(old: ReplayConfig, new: ReplayConfig) -> bool:
    """Whether the two configurations pace alike."""
    return all(getattr(old, name) == getattr(new, name) for name in ("samples_per_insert", "min_size", "error_buffer"))
