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

from .seat import CANDIDATE_FEATURES, CANDIDATES, NOTHING, Seat

_REST = 2


class Sizes(NamedTuple):
    """Sizes of the observation and of the moves of a round with this many candidates."""

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
    """A round at a seat, whose position it changes.

    A single round: `Round(...)`, then `play`. In a batch, threads play what the rounds ask for (`seat.play_turns`):
    `Round(..., begin=False)` and `choose` ask, `take` reads the result.

    Attributes:
      candidates: `[C]` numbers of changes, at most `K`.
      outcomes: `[K + 1]` the reward of each move, 0 for stopping; NaN for one that is not legal.
      legal: `[K + 1]` the moves that change something and have not been made; stopping always is.
      done: the round is over.
    """

    def __init__(
        self,
        seat: Seat,
        candidates: NDArray[np.int64],
        most_moves: int,
        seen: bool = False,
        begin: bool = True,
    ) -> None:
        """Begins a round. The candidates are judged at once, by the real game.

        Args:
          seat: where it is played.
          candidates: `[C]` numbers of changes.
          most_moves: the round is over after this many.
          seen: all stays of the position have just been described.
          begin: False leaves the turn to a batch, and `take` to the caller.
        """
        self.seat, self.candidates = seat, candidates
        self._most_moves = most_moves
        self._begin_s = self._before_s = seat.position.seconds
        self.moves = 0
        self.done = False
        actions = len(seat.turn.candidates) + 1
        self.outcomes = np.full(actions, np.nan)
        self.legal = np.zeros(actions, bool)
        seat.turn.candidates[:] = -1
        seat.turn.candidates[: len(candidates)] = candidates
        seat.ask(look=NOTHING if seen else CANDIDATES, judge=True)
        if begin:
            seat.play()
            self.take()

    @property
    def gain(self) -> float:
        """The gain of the round so far, in per cent."""
        return gain(self._begin_s, self.seat.position.seconds)

    def observe(self, out: NDArray[np.float32]) -> None:
        """Fills `out`, an observation, `[Sizes.observation]`."""
        out[:-_REST] = self.seat.turn.rows.reshape(-1)
        out[-_REST:] = 1.0 - self.moves / self._most_moves, np.tanh(self.gain)

    def play(self, action: int) -> float:
        """Makes a legal move; returns its reward."""
        self.choose(action)
        self.seat.play()
        return self.take()

    def choose(self, action: int) -> None:
        """Chooses the legal move to make next."""
        if not self.legal[action]:
            raise ValueError(f"move {action} is not legal here")
        self._before_s = self.seat.position.seconds
        if action == len(self.legal) - 1:
            self.done = True
            self.seat.ask()
            return
        number = int(self.candidates[action])
        self.seat.turn.candidates[action] = -1
        self.moves += 1
        self.done = self.moves == self._most_moves
        self.seat.ask(number, NOTHING if self.done else CANDIDATES, judge=not self.done)

    def take(self) -> float:
        """Reads what a turn has found; returns the reward of its move."""
        after_s = self.seat.position.seconds
        if not self.done:
            self.outcomes[:-1] = 100.0 * np.log(after_s / self.seat.turn.seconds)
            self.outcomes[-1] = 0.0
            self.legal[:] = ~np.isnan(self.outcomes)
        return gain(self._before_s, after_s)


def gain(before_s: float, after_s: float) -> float:
    """Returns the gain in per cent, `100 ln(before / after)`."""
    return float(100.0 * np.log(before_s / after_s))
