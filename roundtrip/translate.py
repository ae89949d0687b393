"""Translates a mapping into compiler options: an order of buffers, starts of prefetches, what stays in HBM, and flags.

The compiler places buffers greedily in an order, and our own `Decoder` does the same in milliseconds. The translation
searches with the decoder. It first tries a few orders that begin with the buffers that the mapping keeps fast, with and
without the starts of the mapping's prefetches, with and without keeping in HBM what the mapping keeps there, and the
best of these under every setting of the flags. Then it makes moves from the best by squeaky wheel optimization (Joslin
and Clements 1999): a buffer that is in fast memory in the mapping and not in the decoding moves to the front, and the
opposite to the back, or stays in HBM.

The best of each kind (an order alone, an order with starts, with flags, ...) is returned, because the decoder is only a
model of the compiler: the compiler, asked afterwards, may follow one kind and not another.
"""

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..env.physics.objective import Judge
from ..env.program.compiler_flags import CompilerOptions
from ..env.program.mapping import COPY_FIELDS, CROSS_PROGRAM, RESIDENCY_FIELDS, Mapping
from ..solvers.order.individual import BANDWIDTHS, OVERLAPS, Flags
from .encoding import Codec, Encoding, prefetch_starts

# Share of the time for the settings of the flags; the rest is for moves.
_SETTINGS_SHARE = 0.3
# Shares of random moves, which lead on when no move towards the mapping helps, and of moves of what is kept in HBM.
_RANDOM, _KEEPS = 0.3, 0.4
# Numbers of combinations of order, starts and keeps, the best first, that go through all settings one after the other.
_BATCHES = (3, 9)


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


def _changed(flags: Flags, other: Flags) -> int:
    """Returns the number of settings that differ."""
    return sum(ours != theirs for ours, theirs in zip(vars(flags).values(), vars(other).values(), strict=True))


class _Tried(NamedTuple):
    """An encoding that was decoded: its score, less is better, and the mapping."""

    score: tuple[float, float]
    encoding: Encoding
    mapping: Mapping


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
        self.codec = Codec(judge, seed)
        self.wanted_starts = prefetch_starts(self.program, mapping)
        self.kept_buffers, self.kept_reads, self.reads_alone = self.codec.keeps(mapping)
        self.decodes = 0
        self.best: _Tried | None = None
        self.kinds: dict[str, _Tried] = {}

    def run(self, seconds: float) -> list[Translation]:
        """Tries the orders under the settings, then moves from the best; returns the best of each kind."""
        nothing = np.zeros(self.program.num_buffers, bool), np.zeros(self.program.num_accesses, bool)
        own = self.codec.decoder(Flags()).order()
        self._try(Encoding(own, self._no_starts(), *nothing, Flags(), own_order=True))
        settings_until = self.until - (1.0 - _SETTINGS_SHARE) * seconds
        settings_decodes = None if self.limit is None else int(_SETTINGS_SHARE * self.limit)
        self._settings(lambda: self._over(settings_until, settings_decodes))
        while not self._over(self.until, self.limit):
            assert self.best is not None
            self._try(self._moved(self.best.encoding, self.best.mapping))
        # Of equally good encodings the one with the fewest parts comes first.
        found = sorted(self.kinds.values(), key=lambda tried: (tried.score[0], tried.encoding.kind.count("+")))
        return [
            Translation(
                tried.encoding.kind, self.codec.options(tried.encoding), tried.mapping, tried.score[0], self.decodes
            )
            for tried in found
        ]

    def _over(self, until: float, decodes: int | None) -> bool:
        return self.clock() >= until or (decodes is not None and self.decodes >= decodes)

    def _try(self, encoding: Encoding) -> _Tried:
        """Decodes an encoding and keeps it if it is no worse than the best.

        Latency decides first, then the bytes of accesses that the decoding and the mapping serve differently.
        """
        mapping = self.codec.decode(encoding)
        self.decodes += 1
        unlike = mapping.access_fast != self.wanted.access_fast
        score = (self.judge.judge(mapping), float(self.program.access_bytes[unlike].sum()))
        tried = _Tried(score, encoding, mapping)
        if self.best is None or score <= self.best.score:
            self.best = tried
        if encoding.kind not in self.kinds or score < self.kinds[encoding.kind].score:
            self.kinds[encoding.kind] = tried
        return tried

    def _no_starts(self) -> NDArray[np.int64]:
        return np.full(self.program.num_accesses, -1, np.int64)

    def _settings(self, over: Callable[[], bool]) -> None:
        """Tries every order, with and without starts and keeps, and then the best of these first under all settings."""
        crossing = bool((self.wanted.copies[:, COPY_FIELDS.index("direction")] == CROSS_PROGRAM).any())
        likely = Flags(cross_program=crossing)
        grid = itertools.product(BANDWIDTHS, (True, False), (crossing, not crossing), (True, False), OVERLAPS)
        # A large program has time for few settings: those with one flag changed come before those with two.
        settings = sorted((Flags(*chosen) for chosen in grid), key=lambda flags: _changed(flags, likely))
        found = []
        for encoding in self._encodings(likely):
            if over():
                return
            found.append(self._try(encoding))
        found.sort(key=lambda tried: tried.score)
        for begin, end in itertools.pairwise((0, *_BATCHES, len(found))):
            for flags in settings[1:]:
                for tried in found[begin:end]:
                    if over():
                        return
                    encoding = replace(tried.encoding, flags=flags)
                    if encoding.own_order:
                        encoding = replace(encoding, order=self.codec.decoder(flags).order())
                    self._try(encoding)

    def _encodings(self, flags: Flags) -> Iterator[Encoding]:
        no_buffers, no_reads = np.zeros_like(self.kept_buffers), np.zeros_like(self.kept_reads)
        keeps = (
            (no_buffers, no_reads),
            (self.kept_buffers, no_reads),
            (self.kept_buffers, self.reads_alone),
            (self.kept_buffers, self.kept_reads),
        )
        for number, order in enumerate(self._orders(self.codec.decoder(flags).order())):
            for starts in (self._no_starts(), self.wanted_starts):
                for kept_buffers, kept_reads in keeps:
                    yield Encoding(order, starts, kept_buffers, kept_reads, flags, own_order=number == 0)

    def _orders(self, own: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """Yields the compiler's own order, and three orders that put the buffers that the mapping keeps fast first.

        The three sort these buffers by the compiler's order, by fast bytes per byte-second held, and by byte-seconds.
        They leave out buffers that are worth next to nothing: half of the names, and of the compiler's time for them.
        """
        yield own
        own = own[self.codec.major[own]]
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
        """Returns an encoding with one move made, mostly of buffers that decoding and mapping place differently.

        One of them is moved, or many at once, up to all: a long program has thousands and decodes a few times a second.
        """
        if self.draw.random() < _RANDOM:
            return self._moved_at_random(encoding)
        program, wanted = self.program, self.wanted.access_fast
        unlike = np.flatnonzero(decoded.access_fast != wanted)
        if self.draw.random() < _KEEPS:
            return self._kept_otherwise(encoding, unlike)
        order = self._told(encoding)
        missed = np.zeros(program.num_buffers)
        signed = np.where(wanted[unlike], 1.0, -1.0) * (program.access_bytes[unlike] + 1.0)
        np.add.at(missed, program.access_buffer[unlike], signed)
        wrong = np.flatnonzero(missed[order])
        if not len(wrong):
            return self._moved_at_random(encoding)
        share = np.abs(missed[order[wrong]])
        places = self.draw.choice(wrong, self._some(len(wrong)), replace=False, p=share / share.sum())
        key = np.arange(len(order), dtype=np.float64)
        way = self.draw.random() ** 3  # mostly a short one
        forward = missed[order[places]] > 0.0
        key[places] += np.where(forward, -way * (places + 1.0), way * (len(order) - places))
        return replace(encoding, order=order[np.argsort(key, kind="stable")], own_order=False)

    def _kept_otherwise(self, encoding: Encoding, accesses: NDArray[np.int64]) -> Encoding:
        """Returns an encoding that keeps some of these accesses in HBM where the mapping does, and no others."""
        program = self.program
        accesses = accesses[self.codec.major[program.access_buffer[accesses]]]
        if not len(accesses):
            return self._moved_at_random(encoding)
        chosen = self.draw.choice(accesses, self._some(len(accesses)), replace=False)
        buffers = program.access_buffer[chosen]
        kept_buffers, kept_reads = encoding.kept_buffers.copy(), encoding.kept_reads.copy()
        kept_buffers[buffers] = self.kept_buffers[buffers]
        kept_reads[chosen] = self.kept_reads[chosen]
        return replace(encoding, kept_buffers=kept_buffers, kept_reads=kept_reads)

    def _moved_at_random(self, encoding: Encoding) -> Encoding:
        """Returns an encoding with starts or keeps told or not told, or two buffers of the order exchanged."""
        which = self.draw.random()
        if which < 0.25:
            wanted = np.flatnonzero(self.wanted_starts >= 0)
            if len(wanted):
                starts = encoding.starts.copy()
                chosen = self.draw.choice(wanted, self._some(len(wanted)), replace=False)
                starts[chosen] = np.where(starts[chosen] >= 0, -1, self.wanted_starts[chosen])
                return replace(encoding, starts=starts)
        elif which < 0.5:
            buffers = np.flatnonzero(self.codec.major)
            if len(buffers):
                kept = encoding.kept_buffers.copy()
                kept[self.draw.choice(buffers, self._some(len(buffers)), replace=False)] ^= True
                return replace(encoding, kept_buffers=kept)
        elif which < 0.6:
            reads = np.flatnonzero(self.codec.may_keep)
            if len(reads):
                kept = encoding.kept_reads.copy()
                kept[self.draw.choice(reads, self._some(len(reads)), replace=False)] ^= True
                return replace(encoding, kept_reads=kept)
        order = self._told(encoding).copy()
        if len(order):
            a, b = self.draw.integers(len(order), size=2).tolist()
            order[[a, b]] = order[[b, a]]
        return replace(encoding, order=order, own_order=False)

    def _told(self, encoding: Encoding) -> NDArray[np.int64]:
        """Returns the buffers that an option for the encoding's order would name, first to last."""
        return encoding.order[self.codec.major[encoding.order]] if encoding.own_order else encoding.order

    def _some(self, most: int) -> int:
        """Returns a number from 1 to `most`, each order of magnitude alike."""
        return int(most ** self.draw.random())
