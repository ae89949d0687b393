"""The residency game: rounds in which a player picks changes from a few candidates.

A round offers `K` changes of the current plan. Each move makes one of them, in any order, or stops; after `most_moves`
moves the round is over. The reward of a move is the gain in per cent, `100 ln(before / after)` of the judged seconds,
so rewards sum to the gain of a round, and a round that stops at once gains nothing.

An observation has a row for each candidate: 1, the features of its stay, its placement; or zeros where there is none.
Then follow the share of moves left and the gain of the round so far.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .changes import PLACEMENTS
from .observation import STAY_FEATURES, Observer
from .position import Position

CANDIDATE_FEATURES = 1 + STAY_FEATURES + PLACEMENTS
_REST = 2


class Sizes(NamedTuple):
    """Sizes of the observation and of the moves of a round with so many candidates."""

    candidates: int

    @property
    def observation(self) -> int:
        """Numbers of an observation."""
        return self.candidates * CANDIDATE_FEATURES + _REST

    @property
    def actions(self) -> int:
        """Moves: the candidates, then to stop."""
        return self.candidates + 1


class Round:
    """A round from a position, which it changes.

    Attributes:
      candidates: `[K]` numbers of changes; fewer than `K` where the program has fewer.
      outcomes: `[K + 1]` the reward of each move, 0 for stopping; NaN for one that is not legal.
      legal: `[K + 1]` the moves that change something and have not been made; stopping always is.
      done: the round is over.
    """

    def __init__(
        self, position: Position, observer: Observer, candidates: NDArray[np.int64], sizes: Sizes, most_moves: int
    ) -> None:
        """Begins a round. The candidates are judged at once, by the real game."""
        self.position, self._observer, self.candidates = position, observer, candidates
        self._sizes, self._most_moves = sizes, most_moves
        self._begin_s = position.seconds
        self._made = np.zeros(len(candidates), bool)
        self.moves = 0
        self.done = False
        self.outcomes = np.full(sizes.actions, np.nan)
        self.legal = np.zeros(sizes.actions, bool)
        self._judge()

    @property
    def gain(self) -> float:
        """The gain of the round so far, in per cent."""
        return gain(self._begin_s, self.position.seconds)

    def observe(self, out: NDArray[np.float32]) -> None:
        """Fills `out`, an observation, `[Sizes.observation]`."""
        rows = out[: self._sizes.candidates * CANDIDATE_FEATURES].reshape(self._sizes.candidates, -1)
        rows[:] = 0.0
        stays = self._observer.observe()
        describe(self.position, stays, self.candidates, rows[: len(self.candidates)])
        rows[: len(self.candidates)][self._made] = 0.0
        out[-_REST:] = 1.0 - self.moves / self._most_moves, np.tanh(self.gain)

    def play(self, action: int) -> float:
        """Makes a legal move; returns its reward."""
        if not self.legal[action]:
            raise ValueError(f"move {action} is not legal here")
        if action == self._sizes.actions - 1:
            self.done = True
            return 0.0
        before_s = self.position.seconds
        self.position.make(int(self.candidates[action]))
        self._made[action] = True
        self.moves += 1
        self.done = self.moves == self._most_moves
        if not self.done:
            self._judge()
        return gain(before_s, self.position.seconds)

    def _judge(self) -> None:
        left = np.flatnonzero(~self._made)
        self.outcomes[:] = np.nan
        self.outcomes[left] = 100.0 * np.log(self.position.seconds / self.position.outcomes(self.candidates[left]))
        self.outcomes[-1] = 0.0
        self.legal[:] = ~np.isnan(self.outcomes)


def gain(before_s: float, after_s: float) -> float:
    """Returns the gain in per cent, `100 ln(before / after)`."""
    return float(100.0 * np.log(before_s / after_s))


def describe(
    position: Position, stays: NDArray[np.float32], candidates: NDArray[np.int64], out: NDArray[np.float32]
) -> None:
    """Fills `out[K, CANDIDATE_FEATURES]` for changes `candidates[K]`, from the features `stays[S, STAY_FEATURES]`."""
    changes = position.changes
    out[:, 0] = 1.0
    out[:, 1 : 1 + STAY_FEATURES] = stays[changes.stay[candidates]]
    out[:, 1 + STAY_FEATURES :] = 0.0
    out[np.arange(len(candidates)), 1 + STAY_FEATURES + changes.placement[candidates]] = 1.0
