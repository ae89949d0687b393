"""What an actor plays, one episode after another: whole games, each move searched."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ...env.game.game import MallocGame
from ...replay.segment import Step
from .played_program import PlayedProgram
from .played_programs import PlayedPrograms


@dataclass(frozen=True)
class EpisodeResult:
    """A finished game. Its mapping is what `actions` play; nobody has verified it yet.

    Attributes:
      program: name of the program.
      latency_s: simulated seconds, as the objective counts them (`objective.Judge`).
      score: 0 is as good as the greedy player, 1 is the floor.
      actions: the moves; none if the game is a branch and not the best game so far.
      decisions, evictions, stalled_copies: counts of the game; 0 without moves.
      version: version of the parameters at its last move.
      branch: only a part of it was searched (`branch.py`), or nothing (`annealing.py`).
    """

    program: str
    latency_s: float
    score: float
    actions: list[int]
    decisions: int
    evictions: int
    stalled_copies: int
    version: int
    branch: bool = False


@dataclass
class Moved:
    """What follows from a move.

    Attributes:
      steps: for the replay, in order.
      ends: no more steps follow of this episode; the last one's discount says whether the game ends with it.
      result: of the game that is over with this move, or None.
    """

    steps: list[Step]
    ends: bool = False
    result: EpisodeResult | None = None


class Player(Protocol):
    """A slot of an actor: it always stands before a decision."""

    game: MallocGame

    def move(
        self, observation: NDArray[np.float32], action: int, policy: NDArray[np.float32], value: float, version: int
    ) -> Moved:
        """Makes the move that the search has chosen, or another if the episode wants it. Begins the next episode if
        this one is over."""

    def state(self) -> dict[str, Any]:
        """Returns where it stands as plain JSON values."""

    def restore(self, state: dict[str, Any]) -> None:
        """Goes to where `state` says. Raises ValueError if that is no legal line of play."""


def result_of(
    played: PlayedProgram, game: MallocGame, latency_s: float, version: int, branch: bool = False
) -> EpisodeResult:
    """Returns the result of a finished game."""
    played.reported_s = min(played.reported_s, latency_s)
    return EpisodeResult(
        game.program.name,
        latency_s,
        played.scale.score(latency_s),
        list(game.actions),
        game.decisions,
        game.evictions,
        game.stalled_copies,
        version,
        branch,
    )


def branch_of_no_note(played: PlayedProgram, latency_s: float, version: int) -> EpisodeResult:
    """Returns the result of a branch that is no better than what has been reported: nobody will play it again."""
    return EpisodeResult(
        played.program.name, latency_s, played.scale.score(latency_s), [], 0, 0, 0, version, branch=True
    )


def unreported(played: PlayedProgram, version: int) -> EpisodeResult | None:
    """Returns the game of the best line, if nobody has reported one as good."""
    latency_s, actions = played.best
    if latency_s >= played.reported_s:
        return None
    game = played.game_after(actions.tolist())
    return result_of(played, game, latency_s, version, branch=True)


def stored_preferences(text: str, game: MallocGame) -> NDArray[np.int8]:
    """Returns `[A]` preferences from their digits. Raises ValueError if they are not of this game's program."""
    preferences = np.array(list(text), np.int8)
    if len(preferences) != len(game.tables.access):
        raise ValueError("the program has another number of accesses")
    return preferences


class WholeGames:
    """Plays whole games; which program comes next goes round."""

    def __init__(self, programs: PlayedPrograms, turn: int, opponent: str) -> None:
        """Begins game number `turn`; rewards are counted against `opponent` (`PlayedProgram`)."""
        self._programs, self._opponent = programs, opponent
        self._ahead_s = 0.0
        self.turn = turn
        self._begin()

    def move(
        self, observation: NDArray[np.float32], action: int, policy: NDArray[np.float32], value: float, version: int
    ) -> Moved:
        """See `Player.move`."""
        game = self.game
        legal = game.legal.copy()
        game.step_unpaid(action)
        before_s, self._ahead_s = self._ahead_s, self._played.ahead_s(game, self._preferences)
        reward = (before_s - self._ahead_s) / self._played.scale.unit_s
        # The learner and the search hold the discount per move.
        step = Step(observation.copy(), legal, action, reward, 0.0 if game.done else 1.0, policy, value)
        if not game.done:
            return Moved([step])
        result = result_of(self._played, game, game.latency_s, version)
        self._played.offer(game.actions, game.latency_s)
        self.turn += 1
        self._begin()
        return Moved([step], True, result)

    def state(self) -> dict[str, Any]:
        """See `Player.state`."""
        return {
            "turn": self.turn,
            "preferences": "".join(map(str, self._preferences.tolist())),
            "actions": list(self.game.actions),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """See `Player.restore`."""
        self.turn = int(state["turn"])
        self._begin()
        self.game.play(state["actions"])
        self._preferences = stored_preferences(state["preferences"], self.game)
        self._ahead_s = self._played.ahead_s(self.game, self._preferences)

    def _begin(self) -> None:
        self._played = self._programs[self.turn % len(self._programs)]
        self.game = self._played.new_game()
        self._preferences = self._played.opponent(self._opponent)
        self._ahead_s = self._played.ahead_s(self.game, self._preferences)
