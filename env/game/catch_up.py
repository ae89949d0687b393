"""Gives up changed games: how far one may fall behind the current game and still catch up, learned from games that are
played to their end.

After a change, a game is compared with the current one at the points where states are kept, by the seconds that each
has saved so far. A game that is further behind than games regain from there is given up.
"""

import numpy as np
from numpy.typing import NDArray

from ..compiled.kernel import routine
from ..compiled.struct import Rows, Struct, array, rows

# Share of games that are played to their end in any case, and of games given up that would have been kept.
ALWAYS_PLAYED, _GIVEN_UP_WRONGLY = 0.1, 0.05
# This many games are played to their end before any is given up.
FIRST_PLAYED = 40
# Points after a change at which games are compared.
LAGS = 6


class CatchUp(Struct):
    """Learned limits for giving games up.

    Attributes:
      regained: `[2, LAGS]` by the number of points since the change: the quantile of the seconds that a game makes up
        for after it, and their mean size.
      played: `[1]` games that were played to their end to learn it.
    """

    regained: NDArray[np.float64] = array(np.float64, 2)
    played: NDArray[np.int64] = rows(np.int64)


def new_catch_up() -> CatchUp:
    """Returns limits that nothing has been learned for."""
    return CatchUp(regained=np.zeros((2, LAGS)), played=np.zeros(1, np.int64))


@routine
def learn(regained: np.ndarray, behind: Rows, lags: int, worse: float, games: int) -> None:
    """Moves the quantiles of the seconds that a game makes up for towards those of this game."""
    for lag in range(lags):
        gain = behind[lag] - worse
        regained[1, lag] += (abs(gain) - regained[1, lag]) * max(0.02, 1.0 / games)
        step = 0.5 * regained[1, lag]
        regained[0, lag] += step * (1.0 - _GIVEN_UP_WRONGLY) if gain > regained[0, lag] else -step * _GIVEN_UP_WRONGLY
        regained[0, lag] = max(regained[0, lag], 0.0)
