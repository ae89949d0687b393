"""The table of the in-process replay: a ring of segments, drawn in proportion to their priorities."""

import numpy as np

from ..config import ReplayConfig
from ..segment import SegmentSpec
from .limiter import RateLimiter
from .store import RowStore
from .sum_tree import SumTree

# Writers whose open episodes fit into the store before it has to grow.
_USUAL_WRITERS = 64


class Table:
    """Segments under keys that count inserts; when the table is full, an insert removes the oldest segment.

    Key `k` lives in place `k % capacity`. The table neither locks nor waits: `LocalReplay` does.

    Attributes:
      limiter: counts inserts, samples and deletes, and decides whether more are allowed.
      store: the rows that the segments consist of.
    """

    def __init__(self, config: ReplayConfig, spec: SegmentSpec) -> None:
        self._config = config
        self.limiter = RateLimiter(config)
        # A segment owns the rows up to the start of the next one; each open episode holds a window of rows more.
        self.store = RowStore(spec, 1 + config.capacity * spec.period + _USUAL_WRITERS * (spec.length + spec.period))
        self._rows = np.zeros((config.capacity, spec.length), np.int64)
        self._priorities = np.zeros(config.capacity)
        self._tree = SumTree(config.capacity)

    def __len__(self) -> int:
        return self.limiter.inserts - self.limiter.deletes

    def insert(self, rows: np.ndarray) -> None:
        """Inserts a segment, given the numbers of its rows in the store, with the initial priority."""
        if len(self) == self._config.capacity:
            self.store.release(self._rows[self.limiter.deletes % self._config.capacity])
            self.limiter.deletes += 1
        place = self.limiter.inserts % self._config.capacity
        self._rows[place] = rows
        self._prioritise(np.array([place]), np.array([self._config.initial_priority]))
        self.limiter.inserts += 1

    def draw(self, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draws segments; returns their keys `[count]` int64 and the probability of each."""
        capacity, size, oldest = self._config.capacity, len(self), self.limiter.deletes
        draws = rng.random(count)
        self.limiter.samples += count
        if self._tree.total == 0:
            return oldest + (draws * size).astype(np.int64), np.full(count, 1 / size)
        places = self._tree.find(draws * self._tree.total)
        return oldest + (places - oldest) % capacity, self._tree[places] / self._tree.total

    def gather(self, keys: np.ndarray) -> dict[str, np.ndarray]:
        """Returns copies of the segments of `keys` `[B]`: field name -> `[B, S, ...]`."""
        return self.store.gather(self._rows[keys % self._config.capacity])

    def update_priorities(self, keys: np.ndarray, priorities: np.ndarray) -> None:
        """Sets priorities `[N]` of `keys` `[N]`; keys that have left the table are skipped."""
        live = (keys >= self.limiter.deletes) & (keys < self.limiter.inserts)
        self._prioritise(keys[live].astype(np.int64) % self._config.capacity, priorities[live])

    def _prioritise(self, places: np.ndarray, priorities: np.ndarray) -> None:
        if len(places):
            self._priorities[places] = priorities
            # As in Reverb, a priority of 0 weighs nothing even if the exponent is 0.
            weights = np.where(priorities == 0, 0.0, priorities**self._config.priority_exponent)
            self._tree.set(places, weights)

    def arrays(self) -> dict[str, np.ndarray]:
        """Returns rows and priorities for a checkpoint; counts and store are kept apart."""
        return {"rows": self._rows, "priorities": self._priorities}

    def load(self, arrays: dict[str, np.ndarray], *, counts: dict[str, int], old_config: ReplayConfig) -> None:
        """Puts back what a checkpoint holds, in a fresh table.

        Args:
          arrays: what `arrays` returned, and the store's state under `store_...`.
          counts: of the limiter.
          old_config: the configuration that the checkpoint was written under.
        """
        self.limiter = RateLimiter(self._config, **counts)
        if not self._config.paces_like(old_config):
            self.limiter.samples = self._config.balanced_samples(self.limiter.inserts)
        self.store.load({name.removeprefix("store_"): a for name, a in arrays.items() if name.startswith("store_")})
        self._rows = arrays["rows"]
        places = np.arange(self.limiter.deletes, self.limiter.inserts) % self._config.capacity
        self._prioritise(places, arrays["priorities"][places])
