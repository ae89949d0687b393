"""Translates a mapping into compiler options: an order of buffers, starts of prefetches, what stays in HBM, and flags.

The compiler places buffers greedily in an order, and our own `Decoder` does the same in milliseconds. The translation
searches with the decoder. It begins with flags alone. Then it tries a few orders that begin with the buffers that the
mapping keeps fast, with and without the starts of the mapping's prefetches, with and without keeping in HBM what the
mapping keeps there, and climbs over flags from the best of these. Then it tries what the solver `order-search` finds,
and anneals from the best, by moves towards the mapping and at random.

The best of each kind (an order alone, an order with starts, with flags, ...) is returned, because the decoder is only a
model of the compiler: the compiler, asked afterwards, may follow one kind and not another.
"""

import itertools
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from ..env.physics.cost import CYCLES, exact
from ..env.physics.objective import Judge
from ..env.program.compiler_flags import ORDER, CompilerOptions
from ..env.program.mapping import Mapping
from ..solvers.common.budget import PROCESSOR, WALL, Budget
from ..solvers.common.exchange import Exchange
from ..solvers.common.task import Task
from ..solvers.order.solver import found_orders
from .encoding import Codec, Encoding
from .flag_search import FlagSearch, Tried
from .moves import Moves
from .wanted import Wanted

# Ends of phases, as shares of the time: flags alone, flags with other orders, `order-search`. The rest is for moves.
_FLAGS_END, _SETTINGS_END, _ORDERS_END = 0.1, 0.25, 0.5
# Climbs in a row without a gain that end the search of flags alone: as a phase of a translation, and with `flags_only`.
_KICKS, _KICKS_ALONE = 8, 40
# How much more a placement counts, as a share, where no compilation has reported its cycles: a search finds the errors
# of a model.
_DOUBT = 0.01
# First and last temperature of the annealing, as shares of the latency.
_HOT, _COLD = 1e-4, 1e-6
# Shares of the annealing at which a process continues from the best that any process has found.
_SHARED = (0.0, 0.4, 0.7, 0.9)
# Shares of the annealing at which the flags are fitted to the best order: flags that suit the first order may not suit
# a better one.
_CLIMBS = (0.3, 0.6, 0.9)

# Decodes between two repairs, which take as long as a dozen; and how many of those that wait are repaired at the end.
_DECODES_PER_REPAIR, _REPAIRED_LAST = 100, 8


@dataclass(frozen=True, eq=False)
class Translation:
    """An encoding, decoded.

    Attributes:
      kind: see `Encoding.kind`.
      options: the encoding as compiler options.
      mapping: the mapping that our own decoder makes of it.
      judged_s: seconds of that mapping under the judge's objective.
      score_s: the same, but more if cycles are in doubt; less is better.
      decodes: number of encodings that the whole search tried.
    """

    kind: str
    options: CompilerOptions
    mapping: Mapping
    judged_s: float
    score_s: float
    decodes: int


def best_of_each_kind(translations: Iterable[Translation]) -> list[Translation]:
    """Returns the best translation of each kind, best first; of equally good ones, the one with fewer parts first."""
    best: dict[str, Translation] = {}
    for found in translations:
        if found.kind not in best or found.score_s < best[found.kind].score_s:
            best[found.kind] = found
    return sorted(best.values(), key=lambda found: (found.score_s, found.kind.count("+")))


def translate(
    judge: Judge,
    mapping: Mapping,
    seconds: float = 30.0,
    *,
    seed: int = 0,
    clock: Callable[[], float] = time.monotonic,
    decodes: int | None = None,
    exchange: Exchange | None = None,
    flags_only: bool = False,
) -> list[Translation]:
    """Searches for the options that bring about most of the gain that a mapping promises.

    Args:
      judge: the judge of the program's mappings.
      mapping: a legal mapping of the same program.
      seconds: time limit.
      seed: of the random moves.
      clock: returns seconds.
      decodes: limit of decodings; a search that this limit ends repeats exactly with its seed. None for no limit.
      exchange: other processes that translate the same mapping with as much time; None if there are none.
      flags_only: use flags alone, which name nothing of the program. The search then ends by itself.

    Returns:
      The best of each kind, best first, with a penalty for cycles in doubt; for flags alone, the best of every climb.
      The kind `default` is among them.
    """
    search = _Search(judge, mapping, clock() + seconds, seed, clock, decodes, exchange)
    return search.run_flags_only(seconds) if flags_only else search.run(seconds)


class _Search:
    """The search: encodings, and the best of each kind so far.

    A mapping that breaks a rule may look better than it is, so the best of a kind is repaired and judged again. A
    repair takes as long as a dozen decodes. So what seems best waits for it, and while it does, only what seems better
    takes its place.
    """

    def __init__(
        self,
        judge: Judge,
        mapping: Mapping,
        until: float,
        seed: int,
        clock: Callable[[], float],
        decodes: int | None,
        exchange: Exchange | None = None,
    ) -> None:
        self._judge, self._program, self._fast = judge, judge.program, mapping.access_fast
        self._until, self._clock, self._limit = until, clock, decodes
        self._seed, self._draw = seed, np.random.default_rng(seed)
        self._codec = Codec(judge, seed)
        self._wanted = Wanted(self._codec, mapping)
        self._flags = FlagSearch(self._try, self._codec, self._draw)
        self._exchange = exchange
        self._decodes = 0
        self._repairs = 0
        self._kinds: dict[str, Tried] = {}
        self._waiting: dict[str, Tried] = {}

    def run(self, seconds: float) -> list[Translation]:
        """Tries first encodings, then other orders, then anneals from the best; returns the best of each kind."""
        begun = self._clock()
        default = self._try(self._codec.default())
        self._flags.alone(default, self._over_after(_FLAGS_END, seconds), _KICKS)
        self._settings(self._over_after(_SETTINGS_END, seconds))
        if not self._over(self._until, self._limit) and self._affords_orders(begun, seconds):
            self._search_orders(_ORDERS_END - _SETTINGS_END, seconds)
        self._anneal()
        self._repair_best(_REPAIRED_LAST)
        return best_of_each_kind(self._translation(tried) for tried in self._kinds.values())

    def run_flags_only(self, seconds: float) -> list[Translation]:
        """Searches flags alone; returns the best of every climb, best first, and the default."""
        default = self._try(self._codec.default())
        found = self._flags.alone(default, self._over_after(1.0, seconds), _KICKS_ALONE)
        # These are not only the best of their kind, which have been repaired.
        return [self._translation(one._replace(mapping=self._repaired(one))) for one in found]

    def _translation(self, tried: Tried) -> Translation:
        return Translation(
            tried.encoding.kind,
            self._codec.options(tried.encoding),
            tried.mapping,
            tried.judged_s,
            tried.score[0],
            self._decodes,
        )

    def _over_after(self, share: float, seconds: float) -> Callable[[], bool]:
        until = self._until - (1.0 - share) * seconds
        decodes = None if self._limit is None else int(share * self._limit)
        return lambda: self._over(until, decodes)

    def _over(self, until: float, decodes: int | None) -> bool:
        return self._clock() >= until or (decodes is not None and self._decodes >= decodes)

    def _try(self, encoding: Encoding) -> Tried:
        """Decodes an encoding, and keeps it if it is the best of its kind.

        Latency decides first, with a penalty for cycles in doubt; then the bytes of accesses that the decoding and the
        mapping serve differently.
        """
        encoding = self._codec.sayable(encoding)
        tried = self._judged(encoding, self._codec.decode(encoding))
        self._decodes += 1
        if _is_best(tried, self._kinds):
            if self._codec.decoder(encoding.flags).is_exact:
                self._kinds[encoding.kind] = tried
            elif _is_best(tried, self._waiting):
                self._waiting[encoding.kind] = tried
        if self._decodes >= _DECODES_PER_REPAIR * self._repairs:
            self._repair_best(1)
        return tried

    def _repair_best(self, most: int) -> None:
        """Repairs the best of those that wait, `most` at most; what is then the best of its kind is kept."""
        for kind in sorted(self._waiting, key=lambda kind: self._waiting[kind].score)[:most]:
            tried = self._waiting.pop(kind)
            repaired = self._judged(tried.encoding, self._repaired(tried))
            self._repairs += 1
            if _is_best(repaired, self._kinds):
                self._kinds[kind] = repaired

    def _repaired(self, tried: Tried) -> Mapping:
        return self._codec.decoder(tried.encoding.flags).repaired(tried.mapping)

    def _judged(self, encoding: Encoding, mapping: Mapping) -> Tried:
        unlike = mapping.access_fast != self._fast
        judged_s = self._judge.judge(mapping)
        doubt = _DOUBT * (1.0 - exact(self._program, mapping)) if CYCLES in self._judge.models else 0.0
        score = (judged_s * (1.0 + doubt), float(self._program.access_bytes[unlike].sum()))
        return Tried(score, judged_s, encoding, mapping)

    def _settings(self, over: Callable[[], bool]) -> None:
        """Tries every order, with and without starts and keeps; then climbs over flags from each, the best first.

        Several processes divide the climbs among them.
        """
        found = []
        for encoding in self._wanted.encodings(self._wanted.likely_flags()):
            if over():
                return
            found.append(self._try(encoding))
        found.sort(key=lambda tried: tried.score)
        turn = itertools.cycle([True] if self._exchange is None else self._exchange.turns())
        for tried in found:
            if next(turn):
                self._flags.climb(tried, over)

    def _affords_orders(self, begun: float, seconds: float) -> bool:
        """Returns whether the compiler takes an order, and the whole time allows more decodes than there are buffers
        to order; fewer are all needed for moves towards the mapping."""
        if ORDER in self._codec.refused:
            return False
        allowed: float = self._decodes * seconds / max(self._clock() - begun, 1e-9)
        return (allowed if self._limit is None else self._limit) > np.count_nonzero(self._codec.major)

    def _search_orders(self, share: float, seconds: float) -> None:
        """Tries what `order-search` finds in a share of the search, without knowing the mapping."""
        if self._limit is None:
            budget = Budget(share * seconds, clock=PROCESSOR if self._clock is time.process_time else WALL)
        else:
            budget = Budget(None, int(share * self._limit))
        task = Task(self._program, self._judge.target, self._judge.objective, budget, self._seed)
        for individual in found_orders(task, self._codec.typical_bytes):
            if not self._over(self._until, self._limit):
                self._try(self._codec.of_individual(individual))
        self._decodes += task.evaluations

    def _anneal(self) -> None:
        moves = Moves(self._codec, self._wanted, self._draw)
        self._repair_best(1)
        begin, decoded = self._clock(), self._decodes
        current = min(self._kinds.values(), key=lambda tried: tried.score)
        climbs = list(_CLIMBS)
        shared = [] if self._exchange is None else list(_SHARED)
        while not self._over(self._until, self._limit):
            passed = (self._clock() - begin) / max(self._until - begin, 1e-9)
            if self._limit is not None:
                passed = max(passed, (self._decodes - decoded) / max(self._limit - decoded, 1))
            if shared and passed >= shared[0]:
                shared.pop(0)
                current = self._best_of_all(current)
            if climbs and passed >= climbs[0]:
                climbs.pop(0)
                self._repair_best(1)
                best = min(self._kinds.values(), key=lambda tried: tried.score)
                current = self._flags.climb(best, self._over_after(1.0, 0.0))
            temperature = _HOT * (_COLD / _HOT) ** passed * current.score[0]
            tried = self._try(moves.moved(current.encoding, current.mapping))
            worse = tried.score[0] - current.score[0]
            if tried.score <= current.score or 0.0 < worse < -temperature * math.log(1.0 - self._draw.random()):
                current = tried

    def _best_of_all(self, current: Tried) -> Tried:
        """Offers the best to the other processes; returns the best of theirs if it is better, else `current`."""
        assert self._exchange is not None
        self._repair_best(1)
        best = min(self._kinds.values(), key=lambda tried: tried.score)
        self._exchange.offer(best.score[0], **best.encoding.arrays())
        finds = self._exchange.finds()
        if not finds or finds[0][0] >= best.score[0]:
            return current
        return self._try(Encoding.from_arrays(finds[0][1]))


def _is_best(tried: Tried, kinds: dict[str, Tried]) -> bool:
    """Returns whether nothing of the same kind is better."""
    best = kinds.get(tried.encoding.kind)
    return best is None or tried.score < best.score
