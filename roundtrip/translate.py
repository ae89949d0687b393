"""From a mapping to what the compiler can be told: an order of buffers, starts of prefetches, flags.

The compiler decodes an order greedily, and so does our own `Decoder`, in milliseconds. The translation is a search
with it: a few orders that put first what the mapping keeps fast, under settings of the compiler's flags, with and
without the starts of the mapping's prefetches; then moves by what went wrong (squeaky wheel optimization, Joslin and
Clements 1999): a buffer that the mapping has in fast memory and the decoding has not goes to the front, the opposite to
the back. The best of each kind (an order alone, with starts, with flags, ...) is kept: our decoder is not the compiler,
which is asked afterwards and may do as it is told by one kind and not by another.
"""

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..env.physics.objective import Judge
from ..env.program.compiler_flags import CompilerOptions
from ..env.program.mapping import COPY_FIELDS, CROSS_PROGRAM, PREFETCH, RESIDENCY_FIELDS, Mapping
from ..env.program.program import OPERAND, Program
from ..solvers.common.task import Budget, Task
from ..solvers.order.individual import BANDWIDTHS, OVERLAPS, Evaluator, Flags
from .options import flag_options, order_option, prefetch_option

# The kind of no options at all.
DEFAULT = "default"
# Share of the time for the settings; the rest is for moves from the best.
_SETTINGS_SHARE = 0.5
# Moves that are random, so that a search does not end where what went wrong cannot be mended.
_RANDOM = 0.3


@dataclass(frozen=True, eq=False)
class Candidate:
    """What the compiler could be told. Shapes: `K` buffers that are placed, `A` accesses.

    Attributes:
      order: `[K]` buffers, first to last.
      starts: `[A]` after which instruction a prefetch for an access should start, or -1.
      flags: the settings.
      own_order: the order is the compiler's own, and nothing need be said of it.
    """

    order: NDArray[np.int64]
    starts: NDArray[np.int64]
    flags: Flags
    own_order: bool = False

    @property
    def kind(self) -> str:
        """What the compiler is told: `order`, `starts`, `flags`, joined by `+`; `default` for nothing."""
        told = {
            "order": not self.own_order,
            "starts": bool((self.starts >= 0).any()),
            "flags": self.flags != Flags(),
        }
        return "+".join(what for what, is_told in told.items() if is_told) or DEFAULT


@dataclass(frozen=True, eq=False)
class Translation:
    """A candidate, decoded.

    Attributes:
      kind: what the compiler is told, see `Candidate`.
      options: the same as compiler options.
      mapping: what our own decoder makes of it.
      judged_s: seconds of that mapping.
      decodes: how many were tried in the search that it is of.
    """

    kind: str
    options: CompilerOptions
    mapping: Mapping
    judged_s: float
    decodes: int


def translate(
    judge: Judge,
    mapping: Mapping,
    seconds: float = 30.0,
    seed: int = 0,
    clock: Callable[[], float] = time.monotonic,
    decodes: int | None = None,
) -> list[Translation]:
    """Looks for the options whose decoding is worth most of what the mapping promises.

    Returns:
      the best of each kind, best first; what is foreseen no better than the compiler's default comes after that one.

    Args:
      judge: of the program that is mapped.
      mapping: a legal one.
      seconds: time limit.
      seed: of the moves.
      clock: seconds that pass.
      decodes: limit of decodings, which repeats exactly with a seed; None for none.
    """
    return _Search(judge, mapping, clock() + seconds, seed, clock, decodes).run(seconds)


def starts_of(program: Program, mapping: Mapping) -> NDArray[np.int64]:
    """Returns `[A]` per access after which instruction the prefetch that serves it starts, or -1.

    That is the first read from fast memory once the prefetch is done; of several slices the first counts.
    """
    found = np.full(program.num_accesses, -1, np.int64)
    reads = mapping.access_fast & (program.access_kind == OPERAND)
    for copy in mapping.copies.tolist():
        row = dict(zip(COPY_FIELDS, copy, strict=True))
        if row["direction"] != PREFETCH or row["start"] < 0:
            continue
        served = np.flatnonzero(
            reads & (program.access_buffer == row["buffer"]) & (program.access_instruction >= row["end"])
        )
        if len(served):
            access = served[0]
            found[access] = row["start"] if found[access] < 0 else min(found[access], row["start"])
    return found


def _changed(flags: Flags, other: Flags) -> int:
    return sum(ours != theirs for ours, theirs in zip(vars(flags).values(), vars(other).values(), strict=True))


class _Search:
    """Candidates, and the best so far."""

    def __init__(
        self,
        judge: Judge,
        mapping: Mapping,
        until: float,
        seed: int,
        clock: Callable[[], float],
        decodes: int | None,
    ) -> None:
        self.judge, self.program, self.wanted = judge, judge.program, mapping
        self.until, self.clock, self.limit = until, clock, decodes
        self.draw = np.random.default_rng(seed)
        self.wanted_starts = starts_of(self.program, mapping)
        task = Task(self.program, judge.target, judge.objective, Budget(None, 0), seed)
        self.decoder = Evaluator(task).decoder
        self.decodes = 0
        self.best: tuple[tuple[float, float], Candidate, Mapping] | None = None
        self.kinds: dict[str, tuple[tuple[float, float], Candidate, Mapping]] = {}

    def run(self, seconds: float) -> list[Translation]:
        """Tries the orders under the settings, then moves."""
        self._try(Candidate(self.decoder(Flags()).order(), self._no_starts(), Flags(), own_order=True))
        settings_until = self.until - (1.0 - _SETTINGS_SHARE) * seconds
        settings_decodes = None if self.limit is None else int(_SETTINGS_SHARE * self.limit)
        for candidate in self._candidates():
            if self._over(settings_until, settings_decodes):
                break
            self._try(candidate)
        while not self._over(self.until, self.limit):
            assert self.best is not None
            self._try(self._moved(self.best[1], self.best[2]))
        # Of equally good ones that which says least.
        found = sorted(self.kinds.values(), key=lambda entry: (entry[0], entry[1].kind.count("+")))
        return [
            Translation(candidate.kind, self._options(candidate), decoded, judged_s, self.decodes)
            for (judged_s, _), candidate, decoded in found
        ]

    def _over(self, until: float, decodes: int | None) -> bool:
        return self.clock() >= until or (decodes is not None and self.decodes >= decodes)

    def _options(self, candidate: Candidate) -> CompilerOptions:
        order = {} if candidate.own_order else order_option(self.program, candidate.order.tolist())
        return {**flag_options(candidate.flags), **order, **prefetch_option(self.program, candidate.starts)}

    def _try(self, candidate: Candidate) -> None:
        """Decodes a candidate and keeps it if it is no worse than the best: first by latency, then by bytes alike."""
        # What is not named comes last, as it does with the compiler; nothing can be kept out of fast memory.
        priority = np.full(self.program.num_buffers, len(candidate.order))
        priority[candidate.order] = np.arange(len(candidate.order))
        starts = candidate.starts if (candidate.starts >= 0).any() else None
        mapping = self.decoder(candidate.flags).decode(None if candidate.own_order else priority, starts)
        self.decodes += 1
        unlike = mapping.access_fast != self.wanted.access_fast
        score = (self.judge.judge(mapping), float(self.program.access_bytes[unlike].sum()))
        entry = (score, candidate, mapping)
        if self.best is None or score <= self.best[0]:
            self.best = entry
        if candidate.kind not in self.kinds or score < self.kinds[candidate.kind][0]:
            self.kinds[candidate.kind] = entry

    def _no_starts(self) -> NDArray[np.int64]:
        return np.full(self.program.num_accesses, -1, np.int64)

    def _candidates(self) -> Iterator[Candidate]:
        crossing = bool((self.wanted.copies[:, COPY_FIELDS.index("direction")] == CROSS_PROGRAM).any())
        starts = (self._no_starts(), self.wanted_starts)
        likely = Flags(cross_program=crossing)
        crossings = (crossing, not crossing)
        grid = itertools.product(BANDWIDTHS, (True, False), crossings, (True, False), OVERLAPS)
        settings = [Flags(*chosen) for chosen in grid]
        # A large program has time for few: those with one flag changed before those with two.
        for flags in sorted(settings, key=lambda flags: _changed(flags, likely)):
            for number, order in enumerate(self._orders(self.decoder(flags).order())):
                for start in starts:
                    yield Candidate(order, start, flags, own_order=number == 0)

    def _orders(self, own: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """Yields orders: the compiler's own, and what the mapping keeps fast before the rest, by three measures."""
        yield own
        program, wanted = self.program, self.wanted
        served = np.zeros(program.num_buffers)
        fast = np.flatnonzero(wanted.access_fast)
        weight = program.weight[program.access_instruction[fast]]
        np.add.at(served, program.access_buffer[fast], program.access_bytes[fast] * weight)
        elapsed = np.concatenate([[0.0], np.cumsum(program.compute_s * program.weight)])
        held = np.zeros(program.num_buffers)
        for row in wanted.residencies.tolist():
            of = dict(zip(RESIDENCY_FIELDS, row, strict=True))
            held[of["buffer"]] += (of["high"] - of["low"]) * (elapsed[of["end"] + 1] - elapsed[of["start"]])
        left_out = served[own] == 0.0
        density = served / np.maximum(held, 1e-30)
        yield own[np.argsort(left_out, kind="stable")]
        yield own[np.lexsort((-density[own], left_out))]
        yield own[np.lexsort((-held[own], left_out))]

    def _moved(self, candidate: Candidate, decoded: Mapping) -> Candidate:
        """Returns a candidate with one move made, mostly of what the decoding has in another memory than wanted."""
        program = self.program
        order, starts = candidate.order.copy(), candidate.starts
        if self.draw.random() < _RANDOM and len(order) > 1:
            wanted = np.flatnonzero(self.wanted_starts >= 0)
            if len(wanted) and self.draw.random() < 0.5:
                starts = starts.copy()
                access = int(self.draw.choice(wanted))
                starts[access] = -1 if starts[access] >= 0 else self.wanted_starts[access]
                return Candidate(order, starts, candidate.flags, candidate.own_order)
            return self._shuffled(candidate)
        unlike = np.flatnonzero(decoded.access_fast != self.wanted.access_fast)
        unlike = unlike[np.isin(program.access_buffer[unlike], order)]
        if not len(unlike):
            return self._shuffled(candidate)
        share = program.access_bytes[unlike] + 1.0
        access = int(self.draw.choice(unlike, p=share / share.sum()))
        place = int(np.flatnonzero(order == program.access_buffer[access])[0])
        rest = np.delete(order, place)
        missing = self.wanted.access_fast[access]
        to = int(self.draw.integers(place + 1)) if missing else int(self.draw.integers(place, len(rest) + 1))
        return Candidate(np.insert(rest, to, order[place]), starts, candidate.flags)

    def _shuffled(self, candidate: Candidate) -> Candidate:
        order = candidate.order.copy()
        if len(order):
            a, b = self.draw.integers(len(order), size=2).tolist()
            order[[a, b]] = order[[b, a]]
        return Candidate(order, candidate.starts, candidate.flags)
