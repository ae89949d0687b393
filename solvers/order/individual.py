"""Individuals of `order-search`: an order of buffers, eagerness and flags; their mappings and judged seconds."""

import itertools
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...env.bounds.timing import minor_buffers
from ...env.program.mapping import Mapping
from ...env.program.program import OPERAND
from ...env.verifier.verify import verify
from ..common.task import Best, Task
from ..xla.decoder import Decoder
from .flags import Flags

# Buffers that together are worth less than this share of the latency are left out of a search.
_MINOR_SHARE = 2e-3
# Decoders that are kept: at least as many as flags differ in one value, more where their bytes allow it.
_LEAST_KEPT, _MOST_KEPT = 40, 256
_KEPT_BYTES, _BYTES_PER_ACCESS = 2**29, 1500


@dataclass(frozen=True, eq=False)
class Individual:
    """A point of the search. Shapes: `N` buffers, `A` accesses.

    Attributes:
      keys: `[N]` buffers are placed in ascending order of their keys.
      banned: `[N]` whether a buffer stays in HBM.
      eagerness: `[A]` preferred start of a prefetch for an access, from 0 (the definition of the value) to 1 (right
        before the use); negative where the algorithm decides.
      flags: the settings.
    """

    keys: NDArray[np.float64]
    banned: NDArray[np.bool_]
    eagerness: NDArray[np.float64]
    flags: Flags


class Evaluator:
    """Decodes and judges individuals of a task's program, and offers their mappings.

    Attributes:
      major: `[M]` buffers worth placing in a search, by bytes moved, the most first.
      uses: for each buffer the accesses that read it.
    """

    def __init__(self, task: Task, typical_bytes: int | None = None) -> None:
        """Ranks the buffers of the task's program; decodes nothing yet. `typical_bytes`: see `Options`."""
        self._task, self._typical_bytes = task, typical_bytes
        self._judge = task.game.judge
        self._decoders: dict[Flags, Decoder] = {}  # the last used last
        afforded = _KEPT_BYTES // (_BYTES_PER_ACCESS * max(1, self._judge.program.num_accesses))
        self._kept = min(max(afforded, _LEAST_KEPT), _MOST_KEPT)
        self._before: list[Best] = []  # the best before each offer not verified yet
        program, target = self._judge.program, self._judge.target
        minor = frozenset.intersection(
            *(minor_buffers(program, target, model, _MINOR_SHARE) for model in self._judge.models)
        )
        moved = program.access_bytes * program.weight[program.access_instruction]
        worth = np.bincount(program.access_buffer, weights=moved, minlength=program.num_buffers)
        able = program.fast_allowed & (worth > 0)
        able[list(minor)] = False
        order = np.argsort(-worth, kind="stable")
        self.major: NDArray[np.int64] = order[able[order]].astype(np.int64)
        self._minor = np.ones(program.num_buffers, bool)
        self._minor[self.major] = False

    @cached_property
    def uses(self) -> list[NDArray[np.int64]]:
        """For each buffer, the accesses that read it."""
        program = self._judge.program
        operands = np.flatnonzero(program.access_kind == OPERAND)
        order = operands[np.argsort(program.access_buffer[operands], kind="stable")]
        edges = np.searchsorted(program.access_buffer[order], np.arange(program.num_buffers + 1))
        return [order[a:b] for a, b in itertools.pairwise(edges)]

    def decoder(self, flags: Flags) -> Decoder:
        """Returns the decoder under some flags; those used last are kept."""
        found = self._decoders.pop(flags, None)
        if found is None:
            options = replace(flags.options(self._judge.target), typical_bytes=self._typical_bytes)
            found = Decoder(self._judge.program, self._judge.target, options)
            if len(self._decoders) >= self._kept:
                del self._decoders[next(iter(self._decoders))]
        self._decoders[flags] = found
        return found

    def start(self, flags: Flags, keys: NDArray[np.float64] | None = None) -> Individual:
        """Returns XLA's own individual under some flags, or one with other keys."""
        program = self._judge.program
        keys = self.own_keys if keys is None else keys
        return Individual(keys, np.zeros(program.num_buffers, bool), np.full(program.num_accesses, -1.0), flags)

    @cached_property
    def own_keys(self) -> NDArray[np.float64]:
        """`[N]` keys in XLA's own order, evenly from 0 to 1."""
        order = self.decoder(Flags()).order()
        keys = np.ones(self._judge.program.num_buffers)
        keys[order] = np.arange(len(order)) / max(1, len(order))
        return keys

    def size_keys(self) -> NDArray[np.float64]:
        """Returns `[N]` keys by size, large buffers first."""
        size = self._judge.program.size
        keys = np.empty(len(size))
        keys[np.argsort(-size, kind="stable")] = np.arange(len(size)) / len(size)
        return keys

    def seconds(self, individual: Individual, minor: bool = False) -> float:
        """Returns the judged seconds of an individual; `minor` also places, last, the buffers left out of a search."""
        priority = np.where(individual.banned, np.inf, individual.keys)
        priority = np.where(self._minor, priority + 1e6 if minor else np.inf, priority)
        eager = (individual.eagerness >= 0.0).any()
        decoder = self.decoder(individual.flags)
        mapping = decoder.decode_roughly(priority, individual.eagerness if eager else None)
        seconds = self._judge.judge(mapping)
        if seconds < self._task.best_s:
            return self.judge(decoder.repaired(mapping))
        self._task.evaluations += 1
        return seconds

    def judge(self, mapping: Mapping) -> float:
        """Offers a mapping without verifying it; returns its judged seconds.

        Verifying takes as long as several decodes, so `settle` does it for the best mapping only.
        """
        task = self._task
        before = task.best
        seconds = task.offer_mapping(mapping)
        if seconds < before.seconds:
            self._before.append(before)
        return seconds

    def settle(self) -> None:
        """Verifies the best offer and takes it back if it is illegal, until one is legal; must be called at the end."""
        while self._before:
            mapping = self._task.best.mapping
            if mapping is not None and not self._is_illegal(mapping):
                break
            self._task.go_back(self._before.pop())
        self._before.clear()

    def _is_illegal(self, mapping: Mapping) -> bool:
        return bool(verify(self._judge.program, self._judge.target, mapping))
