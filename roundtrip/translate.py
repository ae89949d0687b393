"""Translates a mapping into compiler options: an order of buffers, starts of prefetches, and flags.

The compiler places buffers greedily in an order, and our own `Decoder` does the same in milliseconds. The translation
searches with the decoder. It first tries a few orders that begin with the buffers that the mapping keeps fast, under
every setting of the flags, with and without the starts of the mapping's prefetches. Then it makes moves from the best
by squeaky wheel optimization (Joslin and Clements 1999): a buffer that is in fast memory in the mapping and not in the
decoding moves to the front, and the opposite to the back.

The best of each kind (an order alone, an order with starts, with flags, ...) is returned, because the decoder is only a
model of the compiler: the compiler, asked afterwards, may follow one kind and not another.
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
from ..solvers.common.budget import Budget
from ..solvers.common.task import Task
from ..solvers.order.individual import BANDWIDTHS, OVERLAPS, Evaluator, Flags
from .options import flag_options, order_option, prefetch_option

# The kind without options.
DEFAULT = "default"
# Share of the time for the settings of the flags; the rest is for moves.
_SETTINGS_SHARE = 0.5
# Share of random moves, which lead on when no move towards the mapping helps.
_RANDOM = 0.3


@dataclass(frozen=True, eq=False)
class Encoding:
    """Options in a form that the decoder decodes. Shapes: `K` buffers that are placed, `A` accesses.

    Attributes:
      order: `[K]` buffers, first to last.
      starts: `[A]` the instruction after which a prefetch for an access should start, or -1.
      flags: the settings of the flags.
      own_order: `order` is the compiler's own, which takes no option.
    """

    order: NDArray[np.int64]
    starts: NDArray[np.int64]
    flags: Flags
    own_order: bool = False

    @property
    def kind(self) -> str:
        """The parts that take an option: `order`, `starts`, `flags`, joined by `+`; `default` if there are none."""
        told = {
            "order": not self.own_order,
            "starts": bool((self.starts >= 0).any()),
            "flags": self.flags != Flags(),
        }
        return "+".join(what for what, is_told in told.items() if is_told) or DEFAULT


@dataclass(frozen=True, eq=False)
class Translation:
    """An encoding, decoded.

    Attributes:
      kind: see `Encoding.kind`.
      options: the encoding as compiler options.
      mapping: the mapping that our own decoder makes of it.
      judged_s: seconds of that mapping under the judge's objective.
      decodes: number of encodings that the whole search tried.
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
    *,
    seed: int = 0,
    clock: Callable[[], float] = time.monotonic,
    decodes: int | None = None,
) -> list[Translation]:
    """Searches for the options that bring about most of the gain that a mapping promises.

    Args:
      judge: judges the mappings, and knows the program.
      mapping: a legal mapping of that program.
      seconds: time limit.
      seed: of the random moves.
      clock: returns seconds.
      decodes: limit of decodings; a search that this limit ends repeats exactly with its seed. None for no limit.

    Returns:
      The best of each kind, best first. The kind `default` is among them, and only the kinds before it are foreseen to
      be better than the compiler's default.
    """
    return _Search(judge, mapping, clock() + seconds, seed, clock, decodes).run(seconds)


def prefetch_starts(program: Program, mapping: Mapping) -> NDArray[np.int64]:
    """Returns `[A]` the instruction after which the prefetch that serves an access starts, or -1.

    A prefetch serves the first read of its buffer from fast memory once it is done. Of several slices the first counts.
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
    """Returns the number of settings that differ."""
    return sum(ours != theirs for ours, theirs in zip(vars(flags).values(), vars(other).values(), strict=True))


class _Search:
    """The search: encodings, the best of all and the best of each kind so far."""

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
        self.wanted_starts = prefetch_starts(self.program, mapping)
        task = Task(self.program, judge.target, judge.objective, Budget(None, 0), seed)
        self.decoder = Evaluator(task).decoder
        self.decodes = 0
        self.best: tuple[tuple[float, float], Encoding, Mapping] | None = None
        self.kinds: dict[str, tuple[tuple[float, float], Encoding, Mapping]] = {}

    def run(self, seconds: float) -> list[Translation]:
        """Tries the orders under the settings, then moves from the best; returns the best of each kind."""
        self._try(Encoding(self.decoder(Flags()).order(), self._no_starts(), Flags(), own_order=True))
        settings_until = self.until - (1.0 - _SETTINGS_SHARE) * seconds
        settings_decodes = None if self.limit is None else int(_SETTINGS_SHARE * self.limit)
        for encoding in self._encodings():
            if self._over(settings_until, settings_decodes):
                break
            self._try(encoding)
        while not self._over(self.until, self.limit):
            assert self.best is not None
            self._try(self._moved(self.best[1], self.best[2]))
        # Of equally good encodings the one with the fewest parts comes first.
        found = sorted(self.kinds.values(), key=lambda entry: (entry[0], entry[1].kind.count("+")))
        return [
            Translation(encoding.kind, self._options(encoding), decoded, judged_s, self.decodes)
            for (judged_s, _), encoding, decoded in found
        ]

    def _over(self, until: float, decodes: int | None) -> bool:
        return self.clock() >= until or (decodes is not None and self.decodes >= decodes)

    def _options(self, encoding: Encoding) -> CompilerOptions:
        order = {} if encoding.own_order else order_option(self.program, encoding.order.tolist())
        return {**flag_options(encoding.flags), **order, **prefetch_option(self.program, encoding.starts)}

    def _try(self, encoding: Encoding) -> None:
        """Decodes an encoding and keeps it if it is no worse than the best.

        Latency decides first, then the bytes of accesses that the decoding and the mapping serve differently.
        """
        # Buffers outside the order come last, as in the compiler. No option keeps a buffer out of fast memory.
        priority = np.full(self.program.num_buffers, len(encoding.order))
        priority[encoding.order] = np.arange(len(encoding.order))
        starts = encoding.starts if (encoding.starts >= 0).any() else None
        mapping = self.decoder(encoding.flags).decode(None if encoding.own_order else priority, starts)
        self.decodes += 1
        unlike = mapping.access_fast != self.wanted.access_fast
        score = (self.judge.judge(mapping), float(self.program.access_bytes[unlike].sum()))
        entry = (score, encoding, mapping)
        if self.best is None or score <= self.best[0]:
            self.best = entry
        if encoding.kind not in self.kinds or score < self.kinds[encoding.kind][0]:
            self.kinds[encoding.kind] = entry

    def _no_starts(self) -> NDArray[np.int64]:
        return np.full(self.program.num_accesses, -1, np.int64)

    def _encodings(self) -> Iterator[Encoding]:
        crossing = bool((self.wanted.copies[:, COPY_FIELDS.index("direction")] == CROSS_PROGRAM).any())
        starts = (self._no_starts(), self.wanted_starts)
        likely = Flags(cross_program=crossing)
        crossings = (crossing, not crossing)
        grid = itertools.product(BANDWIDTHS, (True, False), crossings, (True, False), OVERLAPS)
        settings = [Flags(*chosen) for chosen in grid]
        # A large program has time for few settings: those with one flag changed come before those with two.
        for flags in sorted(settings, key=lambda flags: _changed(flags, likely)):
            for number, order in enumerate(self._orders(self.decoder(flags).order())):
                for start in starts:
                    yield Encoding(order, start, flags, own_order=number == 0)

    def _orders(self, own: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """Yields the compiler's own order, and three orders that put the buffers that the mapping keeps fast first.

        The three sort these buffers by the compiler's order, by fast bytes per byte-second held, and by byte-seconds.
        """
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

    def _moved(self, encoding: Encoding, decoded: Mapping) -> Encoding:
        """Returns an encoding with one move made, mostly of a buffer that decoding and mapping place differently."""
        program = self.program
        order, starts = encoding.order.copy(), encoding.starts
        if self.draw.random() < _RANDOM and len(order) > 1:
            wanted = np.flatnonzero(self.wanted_starts >= 0)
            if len(wanted) and self.draw.random() < 0.5:
                starts = starts.copy()
                access = int(self.draw.choice(wanted))
                starts[access] = -1 if starts[access] >= 0 else self.wanted_starts[access]
                return Encoding(order, starts, encoding.flags, encoding.own_order)
            return self._shuffled(encoding)
        unlike = np.flatnonzero(decoded.access_fast != self.wanted.access_fast)
        unlike = unlike[np.isin(program.access_buffer[unlike], order)]
        if not len(unlike):
            return self._shuffled(encoding)
        share = program.access_bytes[unlike] + 1.0
        access = int(self.draw.choice(unlike, p=share / share.sum()))
        place = int(np.flatnonzero(order == program.access_buffer[access])[0])
        rest = np.delete(order, place)
        missing = self.wanted.access_fast[access]
        to = int(self.draw.integers(place + 1)) if missing else int(self.draw.integers(place, len(rest) + 1))
        return Encoding(np.insert(rest, to, order[place]), starts, encoding.flags)

    def _shuffled(self, encoding: Encoding) -> Encoding:
        """Returns an encoding with two buffers of the order exchanged."""
        order = encoding.order.copy()
        if len(order):
            a, b = self.draw.integers(len(order), size=2).tolist()
            order[[a, b]] = order[[b, a]]
        return Encoding(order, encoding.starts, encoding.flags)
