"""What the games of an actor share about one program: the scale of rewards, the judge, the best line."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...env.game.game import NUM_MOVES, MallocGame
from ...env.game.state import B_PLAYED, B_TRIVIAL
from ...env.program.mapping import Mapping
from ...env.program.program import Program
from ...solvers.common.counterfactual import move_outcomes, outcome_ahead
from ...solvers.common.line import LineOfPlay, play_to_end
from ...solvers.common.outcome import make_scoring, outcome
from ...solvers.common.plan import next_placeable
from ...solvers.common.reward_scale import make_scale
from ...solvers.common.slack import preferences_of_mapping

# Whose line rewards are counted against.
FIRST, BEST = "first", "best"


class PlayedProgram:
    """A program that is being played.

    Attributes:
      program: the program.
      scale: how rewards are scaled.
      first: `[A]` the preferences of its first line, whatever better ones come later.
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
        self._line: LineOfPlay | None = None
        self.reported_s = np.inf
        # Buffers that the game places by its own rule are passed over by what plays on quickly.
        self._slowly = bool(game.tables.buffer[game.tables.buffer[:, B_TRIVIAL] == 1, B_PLAYED].any())
        if follow is not None and not self._slowly:
            self._follow(follow)
        self.first = self.line.preferences

    @property
    def line(self) -> LineOfPlay:
        """The best line known; the greedy player's until a better one comes."""
        if self._line is None:
            self._line = LineOfPlay(self._game, self._actions, self._latency_s)
        return self._line

    def new_game(self) -> MallocGame:
        """Returns a new game; it shares what never changes."""
        game = self.unset_game()
        game.reset()
        return game

    def unset_game(self) -> MallocGame:
        """Returns a game in no particular state; it shares what never changes."""
        return self._game.clone()

    def game_after(self, actions: Sequence[int]) -> MallocGame:
        """Returns a game after `actions`. Raises ValueError if one is not legal."""
        game = self.new_game()
        for action in actions:
            game.step_unpaid(action)
        return game

    def outcome_s(self, game: MallocGame) -> float:
        """Returns the seconds that the judge sees in a finished game."""
        return float(outcome(game.tables, self._scoring, game.state))

    def opponent(self, opponent: str) -> NDArray[np.int8]:
        """Returns `[A]` the preferences of the line that rewards are counted against now: the `FIRST` one, or the `BEST`."""
        return self.first if opponent == FIRST else self.line.preferences

    def ahead_s(self, game: MallocGame, preferences: NDArray[np.int8]) -> float:
        """Returns the seconds that the judge sees if `game` goes on by `preferences[A]`, those of an opponent.

        A move's reward is what it takes from them, in units of the scale: what the move is worth with all that follows
        from it, exactly. Rewards of a game add up to what it comes to against the opponent's; the opponent's line
        itself earns nothing anywhere. No comparison between games changes (Ng, Harada, Russell 1999: the potential is
        `-ahead_s`), and what is left for the value head is what can still be bettered.
        """
        if game.done:
            return self.outcome_s(game)
        if self._slowly:
            other = self.game_after(game.actions)
            play_to_end(other, preferences)
            return self.outcome_s(other)
        return float(
            outcome_ahead(
                game.tables,
                self._scoring,
                game.state,
                game.block,
                np.empty_like(game.block),
                game.legal,
                self.following,
                preferences,
            )
        )

    def move_outcomes_s(self, game: MallocGame, preferences: NDArray[np.int8]) -> NDArray[np.float64]:
        """Returns `[3]` the seconds that the judge sees if a legal move is made where `game` stands, and the game goes
        on by `preferences[A]`; infinity for moves that are not legal."""
        seconds = np.empty(NUM_MOVES)
        move_outcomes(
            game.tables,
            self._scoring,
            game.state,
            game.block,
            np.empty_like(game.block),
            game.legal,
            self.following,
            preferences,
            seconds,
        )
        return seconds

    def offer(self, actions: Sequence[int], latency_s: float) -> None:
        """Takes a line of play as the best one, if it is as good."""
        if latency_s < self._latency_s or (latency_s == self._latency_s and not np.array_equal(self._actions, actions)):
            self._actions, self._latency_s, self._line = np.array(actions, np.int64), latency_s, None

    def _follow(self, mapping: Mapping) -> None:
        game = self.new_game()
        play_to_end(game, preferences_of_mapping(self.program, mapping))
        self.offer(game.actions, self.outcome_s(game))

    @property
    def best(self) -> tuple[float, NDArray[np.int64]]:
        """Seconds and moves of the best line."""
        return self._latency_s, self._actions
