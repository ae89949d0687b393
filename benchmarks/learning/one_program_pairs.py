"""The runs on one program, in pairs that differ in learning alone."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..common.json_lines import Key, Record
from ..policy.problems import Problem
from ..policy.tuned import tuned_ratio
from .one_program import ARMS, FROZEN, LEARNING


class Pair(NamedTuple):
    """The two runs of a program that differ in learning alone."""

    learning: Record
    frozen: Record

    @property
    def seconds(self) -> float:
        """Processor time of each."""
        return float(self.learning["seconds"])

    @property
    def follow(self) -> bool:
        """Whether the games follow production."""
        return bool(self.learning["follow"])

    @property
    def behind(self) -> float:
        """How far the frozen run ended behind, in per cent."""
        return self._behind("best")

    @property
    def policy_behind(self) -> float:
        """How far the frozen policy, playing one game alone, ends behind the learned one, in per cent."""
        return self._behind("policy")

    @property
    def tuned(self) -> float:
        """The best of XLA's flags, as a share of production; where they were not compiled, production itself."""
        return tuned_ratio(Problem(self.learning["program"], 1.0, 1, self.learning["objective"])) or 1.0

    def _behind(self, figure: str) -> float:
        return float(100.0 * np.log(self.frozen[figure] / self.learning[figure]))


def pairs(records: Sequence[Record]) -> list[Pair]:
    """Returns the pairs of which both runs are on record: those that follow production last, the shortest first."""
    arms = {(r["objective"], r["program"], r["seconds"], r["seed"], r["follow"], r["arm"]): r for r in records}
    keys = [key for *key, arm in arms if arm == LEARNING and (*key, FROZEN) in arms]
    found = (Pair(*(arms[(*key, arm)] for arm in ARMS)) for key in keys)
    return sorted(found, key=lambda pair: (pair.follow, pair.seconds))


def longest(found: Sequence[Pair], least_seconds: float) -> list[Pair]:
    """Returns the longest pair of each program, objective, seed and kind of game, of so many seconds at least.

    A shorter run is the beginning of a longer one, and no evidence of its own.
    """
    kept: dict[Key, Pair] = {}
    for pair in sorted(found, key=lambda pair: pair.seconds):
        if pair.seconds >= least_seconds:
            kept[pair.learning["program"], pair.learning["objective"], pair.learning["seed"], pair.follow] = pair
    return list(kept.values())
