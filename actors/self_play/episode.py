"""Episodes of self-play: what a slot of the actor plays, one after another, and whole games as the simplest kind."""

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ...env.game.game import MallocGame
from ...env.game.plan import digits_of, plan_of_digits
from ...replay.segment import Step
from .batch import Turn, new_turn
from .programs import ProgramContext, ProgramPool


@dataclass(frozen=True)
class EpisodeResult:
    """A finished game, or the best line so far. Its mapping, which `actions` play, is not verified yet.

    Attributes:
      program: name of the program.
      latency_s: simulated seconds, by the objective (`objective.Judge`).
      score: normalised; 0 equals the greedy player, 1 is the floor; 0 in the residency game.
      actions: the moves, or the preferences of a plan; empty if the best line is reported by itself, or is no better
        than the lines reported before.
      decisions, evictions, stalled_copies: counts of the game; 0 without moves.
      version: version of the parameters at its last move.
      branch: only a part of the game was searched (`branch.py`), or none of it (`annealing.py`).
      finished: a game has ended; otherwise the best line is reported, and counts as no game.
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
    finished: bool = True


@dataclass
class MoveResult:
    """The result of one call of `Player.move`.

    Attributes:
      steps: steps for the replay, in order.
      ends: the episode has no more steps; the discount of the last one is 0 if the game ends with it.
      result: the game that this move finished, or None.
    """

    steps: list[Step]
    ends: bool = False
    result: EpisodeResult | None = None


class Player(Protocol):
    """A slot of an actor. Its game always stands before a decision."""

    game: MallocGame
    compiled: Turn

    def ask(self, action: int) -> None:
        """Sets in `compiled` what compiled threads are to play before `move`; `action` is the search's choice."""

    def move(
        self, observation: NDArray[np.float32], policy: NDArray[np.float32], value: float, version: int
    ) -> MoveResult:
        """Takes over what threads have played (`Crew.play`) since `ask`; begins the next episode if this one is over.

        Args:
          observation: `[O]` the observation that was searched.
          policy: `[M]` the search's improved policy.
          value: the search's value.
          version: version of the parameters.
        """

    def state(self) -> dict[str, Any]:
        """Returns the state as plain JSON values."""

    def restore(self, state: dict[str, Any]) -> None:
        """Restores what `state` returned. Raises ValueError if it holds no legal line of play."""


def result_of(
    context: ProgramContext, game: MallocGame, latency_s: float, version: int, branch: bool = False
) -> EpisodeResult:
    """Returns the result of a finished game and marks it as reported."""
    context.reported_s = min(context.reported_s, latency_s)
    return EpisodeResult(
        program=game.program.name,
        latency_s=latency_s,
        score=context.scale.score(latency_s),
        actions=list(game.actions),
        decisions=game.decisions,
        evictions=game.evictions,
        stalled_copies=game.stalled_copies,
        version=version,
        branch=branch,
    )


def result_without_moves(context: ProgramContext, latency_s: float, version: int) -> EpisodeResult:
    """Returns the result of a branch that is no better than the games reported before."""
    return EpisodeResult(
        program=context.program.name,
        latency_s=latency_s,
        score=context.scale.score(latency_s),
        actions=[],
        decisions=0,
        evictions=0,
        stalled_copies=0,
        version=version,
        branch=True,
    )


def report_best_line(context: ProgramContext, version: int) -> EpisodeResult | None:
    """Returns the best line, as no game of its own, or None if one as good has been reported."""
    latency_s, actions = context.best
    if latency_s >= context.reported_s:
        return None
    game = context.game_after(actions.tolist())
    return replace(result_of(context, game, latency_s, version, branch=True), finished=False)


def parse_preferences(text: str, game: MallocGame) -> NDArray[np.int8]:
    """Returns `[A]` preferences from digits. Raises ValueError unless there is one per access."""
    preferences = plan_of_digits(text)
    if len(preferences) != len(game.tables.access):
        raise ValueError("the program has another number of accesses")
    return preferences


class WholeGames:
    """Plays whole games, every move searched, of all programs in turn."""

    def __init__(self, programs: ProgramPool, turn: int, opponent: str) -> None:
        """Begins game number `turn`; rewards are counted against `opponent` (`ProgramContext.opponent`)."""
        self._programs, self._opponent = programs, opponent
        self._rollout_latency_s = 0.0
        self.turn = turn
        self._begin()

    def ask(self, action: int) -> None:
        """See `Player.ask`."""
        self._legal = self.game.legal.copy()
        now = self.compiled.now
        now["move"] = action
        # Games that place trivial buffers are rolled out move by move.
        now["after"] = now["known"] = not self._context.move_by_move
        now["before_s"] = self._rollout_latency_s

    def move(
        self, observation: NDArray[np.float32], policy: NDArray[np.float32], value: float, version: int
    ) -> MoveResult:
        """See `Player.move`."""
        game, now = self.game, self.compiled.now
        game.adopt(now["move"], now["choices"])
        before_s = self._rollout_latency_s
        self._rollout_latency_s = (
            float(now["after_s"]) if now["after"] else self._context.rollout_latency_s(game, self._preferences)
        )
        reward = (before_s - self._rollout_latency_s) / self._context.scale.unit_s
        # 1, not the discount per move: learner and search hold that.
        step = Step(observation.copy(), self._legal, int(now["move"]), reward, 0.0 if game.done else 1.0, policy, value)
        if not game.done:
            return MoveResult([step])
        result = result_of(self._context, game, game.latency_s, version)
        self._context.offer(game.actions, game.latency_s)
        self.turn += 1
        self._begin()
        return MoveResult([step], True, result)

    def state(self) -> dict[str, Any]:
        """See `Player.state`."""
        return {
            "turn": self.turn,
            "preferences": digits_of(self._preferences),
            "actions": list(self.game.actions),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """See `Player.restore`."""
        self.turn = int(state["turn"])
        self._begin()
        self.game.play(state["actions"])
        self._preferences = parse_preferences(state["preferences"], self.game)
        self.compiled = new_turn(self.game, self._preferences, self._preferences)
        self._rollout_latency_s = self._context.rollout_latency_s(self.game, self._preferences)

    def _begin(self) -> None:
        self._context = self._programs[self.turn % len(self._programs)]
        self.game = self._context.new_game()
        self._preferences = self._context.opponent(self._opponent)
        self.compiled = new_turn(self.game, self._preferences, self._preferences)
        self._rollout_latency_s = self._context.rollout_latency_s(self.game, self._preferences)
