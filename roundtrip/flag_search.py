"""Searches the compiler's flags: changes the flag that gains most until no flag gains.

Flags name nothing of a program, so a few dozen decodes try every setting that differs in one flag.
"""

from collections.abc import Callable, Collection
from typing import NamedTuple

import numpy as np

from ..env.program.mapping import Mapping
from ..solvers.order.flags import Flags, neighbours
from .encoding import Codec, Encoding

# Number of flags that are changed at random when no single flag gains.
_KICKED = 3
# Settings that a search for flags alone returns, at most; each has a mapping.
_MOST = 16

Score = tuple[float, float]


class Tried(NamedTuple):
    """An encoding that was decoded: its score, less is better, its judged seconds, and the mapping."""

    score: tuple[float, float]
    judged_s: float
    encoding: Encoding
    mapping: Mapping


class FlagSearch:
    """Searches the flags of encodings."""

    def __init__(self, attempt: Callable[[Encoding], Tried], codec: Codec, draw: np.random.Generator) -> None:
        """Prepares the search: `attempt` decodes an encoding of `codec`, and `draw` draws."""
        self._attempt, self._codec, self._draw = attempt, codec, draw

    def climb(self, current: Tried, over: Callable[[], bool], known: dict[Flags, Score] | None = None) -> Tried:
        """Changes the flag that gains most, until none gains; returns the best found.

        Args:
          current: where it begins.
          over: whether the time is up.
          known: scores of this encoding under other flags, to which new ones are added; None for none.
        """
        known = {} if known is None else known
        known[current.encoding.flags] = current.score
        while True:
            best = current
            for flags in self._neighbours(current.encoding.flags):
                if over():
                    return best
                if flags not in known or known[flags] < best.score:
                    tried = self._attempt(self._codec.under(current.encoding, flags))
                    known[flags] = tried.score
                    best = min(best, tried, key=lambda one: one.score)
            if best is current:
                return current
            current = best

    def alone(self, default: Tried, over: Callable[[], bool], kicks: int) -> list[Tried]:
        """Climbs from the compiler's own order, then again and again from the best flags with some changed at random.

        Ends when `kicks` climbs in a row have found nothing better. Returns the best of all climbs, and the default.
        """
        known: dict[Flags, Score] = {}
        best, idle = self.climb(default, over, known), 0
        found = [default, best]
        while idle < kicks and not over():
            flags = best.encoding.flags
            for _ in range(_KICKED):
                others = self._neighbours(flags)
                flags = others[int(self._draw.integers(len(others)))]
            reached = self.climb(self._attempt(self._codec.under(default.encoding, flags)), over, known)
            best, idle = (reached, 0) if reached.score < best.score else (best, idle + 1)
            found = shortest_of_each([*found, reached])[:_MOST]
        return shortest_of_each([*found, default])

    def _neighbours(self, flags: Flags) -> tuple[Flags, ...]:
        return neighbours(flags, self._codec.program, self._codec.target)


def shortest_of_each(tried: Collection[Tried]) -> list[Tried]:
    """Returns, best first, the one for each score that changes the fewest flags."""
    found: dict[Score, Tried] = {}
    for one in tried:
        known = found.get(one.score)
        if known is None or one.encoding.flags.changed < known.encoding.flags.changed:
            found[one.score] = one
    return [found[score] for score in sorted(found)]
