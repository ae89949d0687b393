"""What the games of an actor share about one program: the scale of rewards, the judge, the best line."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..env.game import COPY, NO_COPY, MallocGame
from ..env.layout import B_PLAYED, B_TRIVIAL
from ..env.mapping import Mapping
from ..env.program import OPERAND, Program
from .line import Line, play_on
from .reference import make_scale
from .solvers.follow import plan_of_mapping
from .solvers.outcome import make_scoring, outcome
from .solvers.plan import WAIT, next_placeable


class PlayedProgram:
    """A program that is being played.

    Attributes:
      program: the program.
      scale: how rewards are scaled.
      following: `[A + 1]` the next access from each on that a plan may place (`solvers/plan.py`).
      reported_s: seconds of the best game whose moves have been reported.
    """

    def __init__(self, game: MallocGame, follow: Mapping | None = None) -> None:
        """Takes over `game`, a game on the program by the rules to play by; its first line follows `follow` if that
        beats the greedy player."""
        self.program: Program = game.program
        self.scale = make_scale(game)
        self._actions = np.asarray(game.actions, np.int64)
        self._latency_s = game.latency_s
        self.following = next_placeable(game.tables)
        self._scoring = make_scoring(game)
        self._game = game
        self._line: Line | None = None
        self.reported_s = np.inf
        if follow is not None and not game.tables.buffer[game.tables.buffer[:, B_TRIVIAL] == 1, B_PLAYED].any():
            self._follow(follow)

    @property
    def line(self) -> Line:
        """The best line known; the greedy player's until a better one comes."""
        if self._line is None:
            self._line = Line(self._game, self._actions, self._latency_s)
        return self._line

    @property
    def all_hbm_s(self) -> float:
        """Seconds of everything in HBM, by the game's clock."""
        return self._game.all_hbm_s

    def new_game(self) -> MallocGame:
        """Returns a new game; it shares what never changes."""
        game = self.unset_game()
        game.reset()
        return game

    def unset_game(self) -> MallocGame:
        """Returns a game in no particular state; it shares what never changes."""
        return self._game.clone()

    def outcome_s(self, game: MallocGame) -> float:
        """Returns the seconds that the judge sees in a finished game."""
        return float(outcome(game.tables, self._scoring, game.state))

    def offer(self, actions: Sequence[int], latency_s: float) -> None:
        """Takes a line of play as the best one, if it is as good."""
        if latency_s < self._latency_s or (latency_s == self._latency_s and not np.array_equal(self._actions, actions)):
            self._actions, self._latency_s, self._line = np.array(actions, np.int64), latency_s, None

    def _follow(self, mapping: Mapping) -> None:
        wishes = plan_of_mapping(self.program, mapping)
        wishes[wishes == WAIT] = np.where(self.program.access_kind == OPERAND, COPY, NO_COPY)[wishes == WAIT]
        game = self.new_game()
        play_on(game, wishes)
        self.offer(game.actions, self.outcome_s(game))

    @property
    def best(self) -> tuple[float, NDArray[np.int64]]:
        """Seconds and moves of the best line."""
        return self._latency_s, self._actions
