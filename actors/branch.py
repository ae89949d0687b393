"""Branches: games that leave the best line known somewhere, are searched for some moves, and go on by the line.

On long programs a whole game of searched moves costs seconds and ends far from what is known to be good; one decision
of a thousand drowns in what the others make. A branch costs milliseconds, what it comes to is known exactly, and it
differs from the best line by what the search decided. A better one becomes the line: the search climbs on it. It serves
as the demonstration too: after the searched moves some more are recorded that follow the line.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..env.errors import UserError
from ..env.game import NUM_MOVES
from ..replay.segment import Step
from .episode import EpisodeResult, Moved, branch_of_no_note, result_of
from .line import nearest_move, play_on, rush
from .played_program import PlayedProgram


@dataclass(frozen=True)
class BranchConfig:
    """How an actor branches off.

    Attributes:
      share: of an actor's games that are branches; the others are played whole.
      moves: searched moves of a branch.
      tail: moves recorded after them that follow the line, those that the last segments need not counted.
      kick: chance that the first move of a branch is not the search's choice but any other than the line's.
    """

    share: float = 0.75
    moves: int = 32
    tail: int = 0
    kick: float = 0.5

    def __post_init__(self) -> None:
        if not 0.0 <= self.share <= 1.0:
            raise UserError(f"actor.branch: share must be in [0, 1], not {self.share}")
        if not 0.0 <= self.kick <= 1.0:
            raise UserError(f"actor.branch: kick must be in [0, 1], not {self.kick}")
        if self.moves < 1:
            raise UserError(f"actor.branch: moves must be at least 1, not {self.moves}")
        if self.tail < 0:
            raise UserError(f"actor.branch: tail must not be negative, not {self.tail}")


@dataclass
class _Row:
    """A move that was recorded; reward and value come once the game is over."""

    observation: NDArray[np.float32]
    legal: NDArray[np.bool_]
    action: int
    policy: NDArray[np.float32]
    access: int
    saved_s: float


class Branches:
    """Plays branches; which program comes next goes round.

    Attributes:
      game: the game at hand.
    """

    def __init__(
        self, programs: list[PlayedProgram], turn: int, config: BranchConfig, tail: int, discount: float, seed: int
    ) -> None:
        """Begins branch number `turn`.

        Args:
          programs: what is played.
          turn: number of the first branch.
          config: how.
          tail: rows that the last searched move needs behind it in a segment.
          discount: per move.
          seed: of where branches leave the line, and of kicks.
        """
        self._programs, self._config, self._seed = programs, config, seed
        self._tail, self._discount = tail + config.tail, discount
        self.turn = turn
        self._begin()

    def move(
        self, observation: NDArray[np.float32], action: int, policy: NDArray[np.float32], value: float, version: int
    ) -> Moved:
        """See `Player.move`.

        The steps' values are what this very game earns from there on, discounted as if what follows the recorded moves
        had the line's decisions.
        """
        del value
        if not self._rows and self._kick >= 0.0:
            others = np.flatnonzero(self.game.legal)
            others = others[others != nearest_move(self.game, self._wishes)]
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
            "wishes": "".join(map(str, self._wishes.tolist())),
            "where": self._where.tolist(),
            "actions": list(self.game.actions),
            "policies": [row.policy.tolist() for row in self._rows],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """See `Player.restore`."""
        self._seed, self.turn = int(state["seed"]), int(state["turn"])
        self._begin()
        self._start, self._kick = int(state["start"]), float(state["kick"])
        self._wishes, self._where = np.array(list(state["wishes"]), np.int8), np.array(state["where"], np.int64)
        if len(self._wishes) != len(self.game.tables.access):
            raise ValueError("the program has another number of accesses")
        self.game.play(state["actions"][: self._start])
        for action, policy in zip(state["actions"][self._start :], state["policies"], strict=True):
            self._record(self.game.observe(), action, np.array(policy, np.float32))

    def _begin(self) -> None:
        self._played = self._programs[self.turn % len(self._programs)]
        line = self._played.line
        generator = np.random.default_rng([self._seed, self.turn])
        self._start = int(generator.integers(len(line.actions)))
        self._kick = float(generator.random()) if generator.random() < self._config.kick else -1.0
        self._rows: list[_Row] = []
        self._wishes, self._where = line.wishes, line.where
        self.game = self._played.unset_game()
        line.begin(self.game, self._start)

    def _record(self, observation: NDArray[np.float32], action: int, policy: NDArray[np.float32]) -> None:
        game = self.game
        row = _Row(observation.copy(), game.legal.copy(), action, policy, game.access, game.saved_s)
        game.step_unpaid(action)
        self._rows.append(row)

    def _close(self, version: int) -> Moved:
        """Goes on by the line to the end, and hands over what was recorded."""
        game, played = self.game, self._played
        for _ in range(self._tail):
            if game.done:
                break
            action = nearest_move(game, self._wishes)
            self._record(game.observe(), action, np.eye(NUM_MOVES, dtype=np.float32)[action])
        whole = game.done
        marks = self._where[np.searchsorted(self._where, game.program.num_accesses if whole else game.access) :]
        saved_s = np.zeros(len(marks))
        if not whole:
            rush(game.tables, game.state, game.legal, played.following, self._wishes, marks, saved_s)
        latency_s = played.outcome_s(game)
        access = np.array([*(row.access for row in self._rows), *marks, game.program.num_accesses])
        saved = np.array([*(row.saved_s for row in self._rows), *saved_s, played.all_hbm_s - latency_s])
        if self._start == 0:  # what the game played before the first decision is part of its reward
            access[0], saved[0] = 0, 0.0
        rewards = (np.diff(saved) - np.diff(played.scale.saved_s[access])) / played.scale.unit_s
        values = np.zeros(len(rewards))
        _returns(rewards, self._discount, values)
        steps = [
            Step(row.observation, row.legal, row.action, float(reward), 1.0, row.policy, float(value))
            for row, reward, value in zip(self._rows, rewards, values, strict=False)
        ]
        if whole:
            steps[-1] = steps[-1]._replace(discount=0.0)
        result = self._offer(latency_s, version)
        self.turn += 1
        self._begin()
        return Moved(steps, True, result)

    def _offer(self, latency_s: float, version: int) -> EpisodeResult:
        """Makes the game the line if it is as good, and reports it."""
        played, game = self._played, self.game
        if latency_s > played.best[0] and latency_s >= played.reported_s:
            return branch_of_no_note(played, latency_s, version)
        game = played.new_game()
        for action in self.game.actions:
            game.step_unpaid(action)
        play_on(game, self._wishes)
        played.offer(game.actions, latency_s)
        return result_of(played, game, latency_s, version, branch=True)


@njit(cache=True, nogil=True)
def _returns(rewards: np.ndarray, discount: float, values: np.ndarray) -> None:
    """Fills `values` with the discounted sum of rewards from each move on."""
    total = 0.0
    for k in range(len(rewards) - 1, -1, -1):
        total = rewards[k] + discount * total
        values[k] = total
