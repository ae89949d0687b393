"""Branches: episodes that leave the best line of play at a random decision, search some moves, and return to the line.

On long programs, a whole game of searched moves takes seconds, ends far behind the best line, and reveals little about
a single decision among a thousand. A branch takes milliseconds, its outcome is exact, and it differs from the best line
only by the searched moves. A better branch becomes the line, so the search climbs. The line also serves as a
demonstration: some moves that follow it are recorded after the searched ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...env.errors import UserError
from ...env.game.game import MallocGame
from ...env.game.moves import NUM_MOVES
from ...env.game.plan import digits_of
from ...replay.segment import Step
from ...solvers.common.counterfactual import policy_of_outcomes
from ...solvers.common.line import nearest_move, play_to_end
from ...solvers.common.reward_scale import CLEAR_DIFFERENCE
from .batch import Turn, new_turn, play_turn
from .episode import EpisodeResult, MoveResult, parse_preferences, result_of, result_without_moves
from .programs import BEST, FIRST, ProgramPool


@dataclass(frozen=True)
class BranchConfig:
    """Settings of branches.

    Attributes:
      share: share of an actor's games that are branches; the others are whole games.
      moves: searched moves of a branch.
      tail: moves along the line that are recorded after them, besides those that complete the last segments.
      kick: chance that the first move of a branch is a random one other than the line's, not the search's choice.
      noise: largest share of the line's preferences that a branch replaces by random ones. The share is drawn anew for
        each branch, and half the branches have none. A policy that only sees good lines learns nothing of mistakes.
      counterfactual: the target of the policy is made of the exact outcomes of all legal moves, each followed by the
        line (`solvers/common/counterfactual.py`), not of the search's weights; a better outcome becomes the line.
      epsilon: difference of outcomes, in units of reward, that counts as clear. Outcomes are exact, so it is small.
      opponent: the line that rewards are counted against, in whole games too: the `first`, or the `best` so far.
    """

    share: float = 0.75
    moves: int = 32
    tail: int = 0
    kick: float = 0.5
    noise: float = 0.0
    counterfactual: bool = True
    epsilon: float = CLEAR_DIFFERENCE
    opponent: str = BEST

    def __post_init__(self) -> None:
        if not 0.0 <= self.share <= 1.0:
            raise UserError(f"actor.branch: share must be in [0, 1], not {self.share}")
        if not 0.0 <= self.kick <= 1.0:
            raise UserError(f"actor.branch: kick must be in [0, 1], not {self.kick}")
        if not 0.0 <= self.noise <= 1.0:
            raise UserError(f"actor.branch: noise must be in [0, 1], not {self.noise}")
        if not self.epsilon > 0.0:
            raise UserError(f"actor.branch: epsilon must be above 0, not {self.epsilon}")
        if self.opponent not in (FIRST, BEST):
            raise UserError(f"actor.branch: opponent must be {FIRST} or {BEST}, not {self.opponent!r}")
        if self.moves < 1:
            raise UserError(f"actor.branch: moves must be at least 1, not {self.moves}")
        if self.tail < 0:
            raise UserError(f"actor.branch: tail must not be negative, not {self.tail}")


@dataclass
class _Row:
    """A recorded move; its reward and value follow once the game is over.

    Attributes:
      observation, legal, action, policy: see `replay.segment.Step`.
      rollout_latency_s: judged seconds if the opponent had played on before the move.
      best_s: least judged seconds known to be possible before the move.
    """

    observation: NDArray[np.float32]
    legal: NDArray[np.bool_]
    action: int
    policy: NDArray[np.float32]
    rollout_latency_s: float
    best_s: float


# Judged seconds of the best counterfactual game, and the moves up to where the line plays on.
_NOTHING: tuple[float, list[int]] = (np.inf, [])


class Branches:
    """Plays branches, of all programs in turn.

    Attributes:
      game: the game of the current branch.
      compiled: its turn.
    """

    game: MallocGame
    compiled: Turn

    def __init__(
        self,
        programs: ProgramPool,
        turn: int,
        config: BranchConfig,
        tail: int,
        seed: int,
    ) -> None:
        """Begins branch number `turn`.

        Args:
          programs: the programs.
          turn: number of the first branch.
          config: settings of branches.
          tail: moves after the last searched one that complete its segment.
          seed: of the decisions at which branches leave the line, and of kicks.
        """
        self._programs, self._config, self._seed = programs, config, seed
        self._tail = tail + config.tail
        self.turn = turn
        self._begin()

    def ask(self, action: int) -> None:
        """See `Player.ask`."""
        if not self._rows and self._kick >= 0.0:
            others = np.flatnonzero(self.game.legal)
            others = others[others != nearest_move(self.game, self._preferences)]
            action = int(others[int(self._kick * len(others))])
        self._ask(action)

    def move(
        self, observation: NDArray[np.float32], policy: NDArray[np.float32], value: float, version: int
    ) -> MoveResult:
        """See `Player.move`.

        The value of a step is the undiscounted return that is known to be possible from there: of the opponent's game,
        this game, or a counterfactual move in it, whichever is best.
        """
        del value
        self._record(observation, policy)
        if self.game.done or len(self._rows) == self._config.moves:
            return self._close(version)
        return MoveResult([])

    def state(self) -> dict[str, Any]:
        """See `Player.state`."""
        return {
            "seed": self._seed,
            "turn": self.turn,
            "start": self._start,
            "kick": self._kick,
            "preferences": digits_of(self._preferences),
            "opponent": digits_of(self._opponent),
            "actions": list(self.game.actions),
            "found": self._found if self._found[1] else None,
            "policies": [row.policy.tolist() for row in self._rows],
            "seconds": [[row.rollout_latency_s, row.best_s] for row in self._rows],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """See `Player.restore`."""
        self._seed, self.turn = int(state["seed"]), int(state["turn"])
        self._begin()
        self._start, self._kick = int(state["start"]), float(state["kick"])
        self._preferences = parse_preferences(state["preferences"], self.game)
        self._opponent = parse_preferences(state["opponent"], self.game)
        self.compiled = new_turn(self.game, self._preferences, self._opponent)
        self.game.play(state["actions"][: self._start])
        recorded = zip(state["actions"][self._start :], state["policies"], state["seconds"], strict=True)
        for action, policy, (rollout_latency_s, best_s) in recorded:
            observation, legal = self.game.observe(), self.game.legal.copy()
            targets = np.array(policy, np.float32), float(rollout_latency_s), float(best_s)
            self._rows.append(_Row(observation, legal, action, *targets))
            self.game.step_unpaid(action)
        if state["found"] is not None:
            self._found = float(state["found"][0]), list(state["found"][1])

    def _begin(self) -> None:
        self._context = self._programs[self.turn % len(self._programs)]
        line = self._context.line
        generator = np.random.default_rng([self._seed, self.turn])
        self._start = int(generator.integers(len(line.actions)))
        self._kick = float(generator.random()) if generator.random() < self._config.kick else -1.0
        self._rows: list[_Row] = []
        self._found = _NOTHING
        self._preferences, self._opponent = line.preferences, self._context.opponent(self._config.opponent)
        if self._config.noise and generator.random() < 0.5:
            self._preferences = _noisy(line.preferences, self._config.noise * generator.random(), generator)
        self.game = self._context.clone_game()
        line.begin(self.game, self._start)
        self.compiled = new_turn(self.game, self._preferences, self._opponent)

    def _ask(self, action: int) -> None:
        self._legal = self.game.legal.copy()
        now = self.compiled.now
        now["move"] = action
        now["counterfactual"] = self._config.counterfactual
        now["before"] = not (self._config.counterfactual and self._preferences is self._opponent)

    def _record(self, observation: NDArray[np.float32], policy: NDArray[np.float32]) -> None:
        """Records the move that has been played, with the target of its policy."""
        now, game = self.compiled.now, self.game
        rollout_latency_s = best_s = float(now["before_s"])
        if now["counterfactual"]:
            seconds = self.compiled.rollout.seconds
            policy = policy_of_outcomes(seconds, self._context.scale.unit_s, self._config.epsilon)
            best = int(np.argmin(seconds))
            best_s = float(seconds[best])
            if best_s < self._found[0]:
                self._found = (best_s, [*game.actions, best])
            if not now["before"]:
                rollout_latency_s = float(seconds[now["nearest"]])
        self._rows.append(_Row(observation.copy(), self._legal, int(now["move"]), policy, rollout_latency_s, best_s))
        game.adopt(now["move"], now["choices"])

    def _close(self, version: int) -> MoveResult:
        """Plays to the end by the line, and returns the recorded steps."""
        game, context = self.game, self._context
        for _ in range(self._tail):
            if game.done:
                break
            action, observation = nearest_move(game, self._preferences), game.observe()
            self._ask(action)
            play_turn(self.compiled)
            self._record(observation, np.eye(NUM_MOVES, dtype=np.float32)[action])
        whole, rollout_latency_s = game.done, context.rollout_latency_s(game, self._opponent)
        context.play_out(game, self._preferences)
        latency_s = context.final_latency_s(game)
        ahead = np.array([*(row.rollout_latency_s for row in self._rows), rollout_latency_s])
        best = np.array([*(row.best_s for row in self._rows), latency_s])
        known = np.minimum(np.minimum.accumulate(best[::-1])[::-1], ahead)
        rewards, values = -np.diff(ahead) / context.scale.unit_s, (ahead - known) / context.scale.unit_s
        steps = [
            Step(row.observation, row.legal, row.action, float(reward), 1.0, row.policy, float(value))
            for row, reward, value in zip(self._rows, rewards, values[:-1], strict=True)
        ]
        if whole:
            steps[-1] = steps[-1]._replace(discount=0.0)
        result = self._offer(game.actions, latency_s, version)
        found_s, actions = self._found
        if found_s < latency_s:
            result = self._offer(actions, found_s, version)
        self.turn += 1
        self._begin()
        return MoveResult(steps, True, result)

    def _offer(self, actions: Sequence[int], latency_s: float, version: int) -> EpisodeResult:
        """Reports the game that `actions` begin and the line completes; makes it the best line if it is as good."""
        context = self._context
        if latency_s > context.best[0] and latency_s >= context.reported_s:
            return result_without_moves(context, latency_s, version)
        game = context.game_after(actions)
        play_to_end(game, self._preferences)
        context.offer(game.actions, latency_s)
        return result_of(context, game, latency_s, version, branch=True)


def _noisy(preferences: NDArray[np.int8], share: float, generator: np.random.Generator) -> NDArray[np.int8]:
    """Returns `preferences[A]`, a share of them replaced by random moves."""
    replaced = generator.random(len(preferences)) < share
    return np.where(replaced, generator.integers(0, NUM_MOVES, len(preferences)), preferences).astype(np.int8)
