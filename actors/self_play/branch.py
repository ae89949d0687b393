"""Branches: games that leave the best line known somewhere, are searched for some moves, and go on by the line.

On long programs a whole game of searched moves costs seconds and ends far from what is known to be good; one decision
of a thousand drowns in what the others make. A branch costs milliseconds, what it comes to is known exactly, and it
differs from the best line by what the search decided. A better one becomes the line: the search climbs on it. It serves
as the demonstration too: after the searched moves some more are recorded that follow the line.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...env.errors import UserError
from ...env.game.game import NUM_MOVES, MallocGame
from ...replay.segment import Step
from ...solvers.common.counterfactual import policy_of_outcomes
from ...solvers.common.line import nearest_move, play_to_end, rollout
from .episode import EpisodeResult, Moved, branch_of_no_note, result_of, stored_preferences
from .played_program import BEST, FIRST
from .played_programs import PlayedPrograms


@dataclass(frozen=True)
class BranchConfig:
    """How an actor branches off.

    Attributes:
      share: of an actor's games that are branches; the others are played whole.
      moves: searched moves of a branch.
      tail: moves recorded after them that follow the line, those that the last segments need not counted.
      kick: chance that the first move of a branch is not the search's choice but any other than the line's.
      noise: largest share of the line's preferences that are replaced by random ones in a branch; the share is drawn anew
        for each, and half the branches have none. A policy that only sees good lines learns nothing of mistakes.
      counterfactual: the policy learns from what each legal move would come to if the game went on by the line
        (`counterfactual.py`), not from the search's weights; and what that finds becomes the line.
      epsilon: difference of such outcomes, in units of reward, that counts as clear. They are exact, so it is small.
      opponent: whose line rewards are counted against, in whole games too: the `first`, or the `best` by then.
    """

    share: float = 0.75
    moves: int = 32
    tail: int = 0
    kick: float = 0.5
    noise: float = 0.0
    counterfactual: bool = True
    epsilon: float = 0.02
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
    """A move that was recorded; its reward and value come once the game is over.

    Attributes:
      ahead_s: what the game would have come to by the opponent's preferences, before the move.
      best_s: the best that it is known it could have come to.
    """

    observation: NDArray[np.float32]
    legal: NDArray[np.bool_]
    action: int
    policy: NDArray[np.float32]
    ahead_s: float
    best_s: float


# Seconds of the best game that an outcome has shown, and the moves up to there.
_NOTHING: tuple[float, list[int]] = (np.inf, [])


class Branches:
    """Plays branches; which program comes next goes round.

    Attributes:
      game: the game at hand.
    """

    game: MallocGame

    def __init__(
        self,
        programs: PlayedPrograms,
        turn: int,
        config: BranchConfig,
        tail: int,
        seed: int,
    ) -> None:
        """Begins branch number `turn`.

        Args:
          programs: what is played.
          turn: number of the first branch.
          config: how.
          tail: rows that the last searched move needs behind it in a segment.
          seed: of where branches leave the line, and of kicks.
        """
        self._programs, self._config, self._seed = programs, config, seed
        self._tail = tail + config.tail
        self.turn = turn
        self._begin()

    def move(
        self, observation: NDArray[np.float32], action: int, policy: NDArray[np.float32], value: float, version: int
    ) -> Moved:
        """See `Player.move`.

        The steps' values are what is known to be possible from there on: the best of the opponent's game, this one, and
        the outcomes of other moves in it, not discounted.
        """
        del value
        if not self._rows and self._kick >= 0.0:
            others = np.flatnonzero(self.game.legal)
            others = others[others != nearest_move(self.game, self._preferences)]
            action = int(others[int(self._kick * len(others))])
        self._record(observation, action, policy)
        if self.game.done or len(self._rows) == self._config.moves:
            return self._close(version)
        return Moved([])

    def state(self) -> dict[str, Any]:
        """See `Player.state`."""
        return {
            "seed": self._seed,
            "turn": self.turn,
            "start": self._start,
            "kick": self._kick,
            "preferences": "".join(map(str, self._preferences.tolist())),
            "opponent": "".join(map(str, self._opponent.tolist())),
            "actions": list(self.game.actions),
            "found": self._found if self._found[1] else None,
            "policies": [row.policy.tolist() for row in self._rows],
            "seconds": [[row.ahead_s, row.best_s] for row in self._rows],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """See `Player.restore`."""
        self._seed, self.turn = int(state["seed"]), int(state["turn"])
        self._begin()
        self._start, self._kick = int(state["start"]), float(state["kick"])
        self._preferences = stored_preferences(state["preferences"], self.game)
        self._opponent = stored_preferences(state["opponent"], self.game)
        self.game.play(state["actions"][: self._start])
        recorded = zip(state["actions"][self._start :], state["policies"], state["seconds"], strict=True)
        for action, policy, (ahead_s, best_s) in recorded:
            self._note(self.game.observe(), action, np.array(policy, np.float32), float(ahead_s), float(best_s))
        if state["found"] is not None:
            self._found = float(state["found"][0]), list(state["found"][1])

    def _begin(self) -> None:
        self._played = self._programs[self.turn % len(self._programs)]
        line = self._played.line
        generator = np.random.default_rng([self._seed, self.turn])
        self._start = int(generator.integers(len(line.actions)))
        self._kick = float(generator.random()) if generator.random() < self._config.kick else -1.0
        self._rows: list[_Row] = []
        self._found = _NOTHING
        self._preferences, self._opponent = line.preferences, self._played.opponent(self._config.opponent)
        if self._config.noise and generator.random() < 0.5:
            self._preferences = _noisy(line.preferences, self._config.noise * generator.random(), generator)
        self.game = self._played.unset_game()
        line.begin(self.game, self._start)

    def _record(self, observation: NDArray[np.float32], action: int, policy: NDArray[np.float32]) -> None:
        """Makes a move, and records it with what its policy learns."""
        ahead_s = best_s = None
        if self._config.counterfactual:
            seconds = self._played.move_outcomes_s(self.game, self._preferences)
            policy = policy_of_outcomes(seconds, self._played.scale.unit_s, self._config.epsilon)
            best = int(np.argmin(seconds))
            best_s = float(seconds[best])
            if best_s < self._found[0]:
                self._found = (best_s, [*self.game.actions, best])
            if self._preferences is self._opponent:
                ahead_s = float(seconds[nearest_move(self.game, self._preferences)])
        if ahead_s is None:
            ahead_s = self._played.ahead_s(self.game, self._opponent)
        self._note(observation, action, policy, ahead_s, ahead_s if best_s is None else best_s)

    def _note(
        self,
        observation: NDArray[np.float32],
        action: int,
        policy: NDArray[np.float32],
        ahead_s: float,
        best_s: float,
    ) -> None:
        self._rows.append(_Row(observation.copy(), self.game.legal.copy(), action, policy, ahead_s, best_s))
        self.game.step_unpaid(action)

    def _close(self, version: int) -> Moved:
        """Goes on by the line to the end, and hands over what was recorded."""
        game, played = self.game, self._played
        for _ in range(self._tail):
            if game.done:
                break
            action = nearest_move(game, self._preferences)
            self._record(game.observe(), action, np.eye(NUM_MOVES, dtype=np.float32)[action])
        whole, ahead_s = game.done, played.ahead_s(game, self._opponent)
        if not whole:
            rollout(game.tables, game.state, game.legal, played.following, self._preferences)
        latency_s = played.outcome_s(game)
        ahead = np.array([*(row.ahead_s for row in self._rows), ahead_s])
        best = np.array([*(row.best_s for row in self._rows), latency_s])
        known = np.minimum(np.minimum.accumulate(best[::-1])[::-1], ahead)
        rewards, values = -np.diff(ahead) / played.scale.unit_s, (ahead - known) / played.scale.unit_s
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
        return Moved(steps, True, result)

    def _offer(self, actions: Sequence[int], latency_s: float, version: int) -> EpisodeResult:
        """Makes the game that `actions` begin and the preferences end the line if it is as good, and reports it."""
        played = self._played
        if latency_s > played.best[0] and latency_s >= played.reported_s:
            return branch_of_no_note(played, latency_s, version)
        game = played.game_after(actions)
        play_to_end(game, self._preferences)
        played.offer(game.actions, latency_s)
        return result_of(played, game, latency_s, version, branch=True)


def _noisy(preferences: NDArray[np.int8], share: float, generator: np.random.Generator) -> NDArray[np.int8]:
    """Returns `preferences[A]` with this share of them replaced by random moves."""
    replaced = generator.random(len(preferences)) < share
    return np.where(replaced, generator.integers(0, NUM_MOVES, len(preferences)), preferences).astype(np.int8)
