"""The programs of an actor: what all games on a program share, and a pool that prepares each program on first use.

Shapes: `A` accesses of a program.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...env.errors import UserError
from ...env.game.game import MallocGame
from ...env.game.kernels import judge
from ...env.game.outcome import make_scoring
from ...env.game.plan import TO_THE_END, PlanGame, digits_of, play_until
from ...env.program.mapping import Mapping
from ...env.program.program import Program
from ...solvers.common.counterfactual import move_outcomes, new_rollout, outcome_ahead
from ...solvers.common.follow import preferences_of_mapping
from ...solvers.common.line import LineOfPlay, play_to_end
from ...solvers.common.reward_scale import make_scale

# The line that rewards are counted against: the first one, or the best so far.
FIRST, BEST = "first", "best"


class ProgramContext:
    """What all games on one program share: rules, judge, scale of rewards, and the best line of play.

    Attributes:
      program: the program.
      scale: the scale of rewards.
      first: `[A]` the preferences of the first line, whatever better lines come later.
      move_by_move: games place trivial buffers, so that plans are played out move by move.
      reported_s: seconds of the best game whose moves have been reported.
    """

    def __init__(self, game: MallocGame, follow: Mapping | None = None) -> None:
        """Prepares the program of `game`, which the context takes over with its rules.

        The first line is the greedy player's, or the one that follows the mapping `follow` if that is better.
        """
        self.program: Program = game.program
        self.scale = make_scale(game)
        self._actions = np.asarray(game.actions, np.int64)
        self._latency_s = game.latency_s
        self._rollout = new_rollout(len(game.tables.access), len(game.block))
        self._scoring = make_scoring(game.judge)
        self._game = game
        self._line: LineOfPlay | None = None
        self.reported_s = np.inf
        # Compiled rollouts skip buffers that the game places by its own rule; with those, play is move by move.
        self.move_by_move = bool(game.tables.buffer["played"][game.tables.buffer["trivial"] == 1].any())
        if follow is not None and not self.move_by_move:
            following = self.game_following(follow)
            self.offer(following.actions, self.final_latency_s(following))
        self.first = self.line.preferences

    @property
    def line(self) -> LineOfPlay:
        """The best line of play so far."""
        if self._line is None:
            self._line = LineOfPlay(self._game, self._actions, self._latency_s)
        return self._line

    def new_game(self) -> MallocGame:
        """Returns a game at its beginning; games share their constant tables."""
        game = self.clone_game()
        game.reset()
        return game

    def clone_game(self) -> MallocGame:
        """Returns a game in an arbitrary state, for a caller that sets the state."""
        return self._game.clone()

    def game_after(self, actions: Sequence[int]) -> MallocGame:
        """Returns a game after `actions`. Raises ValueError if one is not legal."""
        game = self.new_game()
        for action in actions:
            game.step_unpaid(action)
        return game

    def play_out(self, game: MallocGame, preferences: NDArray[np.int8]) -> None:
        """Plays `game` to its end by `preferences[A]`, as `final_latency_s` needs it: a rollout records no moves."""
        if self.move_by_move:
            play_to_end(game, preferences)
        elif not game.done:
            play_until(game.tables, game.state, game.options, preferences, self._rollout.moves, TO_THE_END)

    def final_latency_s(self, game: MallocGame) -> float:
        """Returns the judged seconds of a finished game."""
        return float(judge(game.tables, self._scoring, game.state))

    def opponent(self, opponent: str) -> NDArray[np.int8]:
        """Returns `[A]` the preferences of the line that rewards are counted against: the `FIRST` or the `BEST`."""
        return self.first if opponent == FIRST else self.line.preferences

    def rollout_latency_s(self, game: MallocGame, preferences: NDArray[np.int8]) -> float:
        """Returns the judged seconds of `game` if the opponent's `preferences[A]` play it to its end.

        A move's reward is the decrease of this latency, in units of the scale: the exact worth of the move and of all
        that follows from it. The rewards of a game sum to its gain over the opponent's game, and the opponent's own
        line earns nothing anywhere. This is potential-based shaping with the potential `-rollout_latency_s` (Ng, Harada
        and Russell 1999), so games keep their order; the value head predicts only what can still be gained.
        """
        if game.done:
            return self.final_latency_s(game)
        if self.move_by_move:
            other = self.game_after(game.actions)
            play_to_end(other, preferences)
            return self.final_latency_s(other)
        return float(outcome_ahead(self._plan_game(game), self._rollout, preferences))

    def move_latencies_s(self, game: MallocGame, preferences: NDArray[np.int8]) -> NDArray[np.float64]:
        """Returns `[3]` the judged seconds of `game` after each legal move, if `preferences[A]` then play it to its
        end; infinity for illegal moves."""
        move_outcomes(self._plan_game(game), self._rollout, preferences)
        return self._rollout.seconds.copy()

    def offer(self, actions: Sequence[int], latency_s: float) -> None:
        """Makes a line of play the best one if it is at least as good and different."""
        if latency_s < self._latency_s or (latency_s == self._latency_s and not np.array_equal(self._actions, actions)):
            self._actions, self._latency_s, self._line = np.array(actions, np.int64), latency_s, None

    def game_following(self, mapping: Mapping) -> MallocGame:
        """Returns the finished game whose moves follow a mapping as closely as the rules allow."""
        game = self.new_game()
        play_to_end(game, preferences_of_mapping(self.program, mapping))
        return game

    @property
    def best(self) -> tuple[float, NDArray[np.int64]]:
        """Judged seconds and moves of the best line."""
        return self._latency_s, self._actions

    def _plan_game(self, game: MallocGame) -> PlanGame:
        return PlanGame(
            tables=game.tables, state=game.state, options=game.options, block=game.block, scoring=self._scoring
        )


class ProgramPool:
    """A sequence of `ProgramContext`s.

    Each is prepared on first use: an actor of a hundred programs begins its first games at once.
    """

    def __init__(self, games: Sequence[MallocGame], followed: Callable[[Program], Mapping | None]) -> None:
        """Takes over a game on each program.

        Args:
          games: the games, by the rules to play by.
          followed: returns the mapping that the first line of a program may follow, or None.

        Raises:
          UserError: a program leaves nothing to decide.
        """
        for game in games:
            if game.done:
                raise UserError(f"workload {game.program.name!r} leaves nothing to decide; choose another")
        self._games, self._followed = list(games), followed
        self._made: dict[int, ProgramContext] = {}
        self._index = {game.program.name: index for index, game in enumerate(games)}
        # Lines offered before their program was prepared.
        self._offered: dict[int, tuple[float, list[int]]] = {}

    def __len__(self) -> int:
        return len(self._games)

    def __getitem__(self, index: int) -> ProgramContext:
        if index not in self._made:
            if not 0 <= index < len(self._games):
                raise IndexError(index)
            game = self._games[index]
            self._made[index] = ProgramContext(game.clone(), self._followed(game.program))
            if index in self._offered:
                latency_s, actions = self._offered.pop(index)
                self._made[index].offer(actions, latency_s)
        return self._made[index]

    def __iter__(self) -> Iterator[ProgramContext]:
        return (self[index] for index in range(len(self)))

    def offer(self, name: str, latency_s: float, actions: Sequence[int]) -> None:
        """Makes a line of play the best one of its program if it is better; ignores programs of other actors.

        Raises:
          UserError: the line is not legal.
        """
        index = self._index.get(name)
        if index is None:
            return
        known = self._made[index].best[0] if index in self._made else self._offered.get(index, (float("inf"),))[0]
        if latency_s < known:
            self._accept(index, latency_s, actions)

    def lines(self) -> list[list[Any] | None]:
        """Returns judged seconds and moves of each program's best line as JSON values; None where there is none."""
        return [self._line(index) for index in range(len(self))]

    def restore(self, lines: Sequence[Any]) -> None:
        """Restores what `lines` returned. Raises UserError if a line is not legal, or there are other programs."""
        if len(lines) != len(self):
            raise UserError(f"actor: the saved state has {len(lines)} programs, the configuration {len(self)}")
        for index, line in enumerate(lines):
            if line is not None:
                self._accept(index, float(line[0]), [int(move) for move in line[1]])

    def _accept(self, index: int, latency_s: float, actions: Sequence[int]) -> None:
        _check_line(self._games[index], actions)
        if index in self._made:
            self._made[index].offer(actions, latency_s)
        else:
            self._offered[index] = (latency_s, list(actions))

    def _line(self, index: int) -> list[Any] | None:
        if index in self._made:
            latency_s, actions = self._made[index].best
            return [latency_s, digits_of(actions)]
        if index in self._offered:
            latency_s, moves = self._offered[index]
            return [latency_s, "".join(map(str, moves))]
        return None


def _check_line(rules: MallocGame, actions: Sequence[int]) -> None:
    """Raises UserError unless `actions` are legal and play a whole game."""
    game = rules.clone()
    game.reset()
    try:
        for action in actions:
            game.step_unpaid(action)
    except ValueError as error:
        raise UserError(f"actor: a line of play is not legal on program {game.program.name!r}: {error}") from error
    if not game.done:
        raise UserError(f"actor: a line of play stops before the end of program {game.program.name!r}")
