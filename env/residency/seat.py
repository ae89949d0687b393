"""A seat at the residency game: a position, its observation, and the candidates of a round, in compiled code.

Python sets what to do at each seat (`Turn.now`), `play_turns` does it for many seats without the interpreter, and
Python reads the results.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compiled.kernel import kernel, routine, vector
from ..compiled.struct import Struct, array, at_address, function, one, part
from .changes import PLACEMENTS
from .observation import STAY_FEATURES, Observer, View, look
from .position import Position, make, try_changes

CANDIDATE_FEATURES = 1 + STAY_FEATURES + PLACEMENTS

# make   the change to make first, or -1
# look   what to observe then: `NOTHING`, the stays of the `CANDIDATES`, or `EVERYTHING`
# judge  1: then the candidates are judged
_TURN = np.dtype([(name, np.int64) for name in ("make", "look", "judge")])
NOTHING, CANDIDATES, EVERYTHING = range(3)


class Turn(Struct):
    """What to do at a seat, and the result. Shapes: `K` candidates.

    Attributes:
      observed: the position and its observation.
      candidates: `[K]` numbers of changes; -1 where there is none, or it has been made.
      seconds: `[K]` judged seconds after each; NaN for one that changes no move.
      rows: `[K, CANDIDATE_FEATURES]` 1, the features of its stay, its placement; zeros where there is none.
      now: what to do.
    """

    observed: View = part(View)
    candidates: NDArray[np.int64] = array(np.int64, 1)
    seconds: NDArray[np.float64] = array(np.float64, 1)
    rows: NDArray[np.float32] = array(np.float32, 2)
    now: Any = one(_TURN)
    make = function(make)
    look = function(look)
    try_changes = function(try_changes)


class Seat:
    """A position that one player plays from.

    Attributes:
      position, observer: the position, and its observer.
      turn: for compiled code.
    """

    def __init__(self, position: Position, candidates: int) -> None:
        """Makes a seat for rounds of this many candidates."""
        self.position, self.observer = position, Observer(position)
        self._now = np.zeros(1, _TURN)
        self.turn = Turn(
            observed=self.observer.view,
            candidates=np.full(candidates, -1, np.int64),
            seconds=np.full(candidates, np.nan),
            rows=np.zeros((candidates, CANDIDATE_FEATURES), np.float32),
            now=self._now.view(np.recarray)[0],
        )

    def ask(self, make: int = -1, look: int = NOTHING, judge: bool = False) -> None:
        """Sets what the next turn does."""
        self._now[0] = make, look, judge

    def play(self) -> None:
        """Plays the turn, in this thread."""
        play_turns(np.array([self.turn.address], np.int64), 0, 1)


_turn_at = at_address(Turn)


@kernel(vector(np.int64), int, int)
def play_turns(turns: np.ndarray, first: int, last: int) -> None:
    """Plays the turns at the addresses `turns[first:last]`. No two of them may share a game."""
    for number in range(first, last):
        turn = _turn_at(turns[number])
        now = turn.now
        finished = False
        if now.make >= 0:
            finished = turn.make(turn.observed.board, now.make)
        if now.look != NOTHING:
            turn.look(turn.observed, finished, now.look == EVERYTHING, turn.candidates)
        if now.judge:
            _describe(turn)
            turn.try_changes(turn.observed.board, turn.candidates, turn.seconds)


@routine
def _describe(turn: Turn) -> None:
    """Fills the rows of the candidates."""
    changes, stays, rows = turn.observed.board.changes, turn.observed.desk.stay, turn.rows
    for k in range(len(turn.candidates)):
        for f in range(CANDIDATE_FEATURES):
            rows[k, f] = 0.0
        number = turn.candidates[k]
        if number < 0:
            continue
        stay = changes.stay[number]
        rows[k, 0] = 1.0
        for f in range(STAY_FEATURES):
            rows[k, 1 + f] = stays[stay, f]
        rows[k, 1 + STAY_FEATURES + changes.placement[number]] = 1.0
