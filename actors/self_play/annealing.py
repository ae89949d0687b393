"""Annealing beside the agent: it improves the best lines of play, which branches then leave from and imitate."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...env.errors import UserError
from ...solvers.anneal import SEARCH, scale_of
from ...solvers.common.line import play_to_end
from ...solvers.common.plan import plan_of_line
from ...solvers.common.task import Budget, Task
from ...solvers.common.walk import Walk
from .played_program import PlayedProgram

# As `anneal` searches, but for preferences that are no moves of the game.
_SEARCH = SEARCH._replace(waits=False)


@dataclass(frozen=True)
class AnnealingConfig:
    """How much is annealed.

    Attributes:
      accesses: of one program, played by annealing in each slice of self-play; 0 for none.
      cycle: games over which the temperature falls once.
      hot, cold: first and last temperature of a cycle, in units of the median difference that a single change makes.
    """

    accesses: int = 0
    cycle: int = 6_000
    hot: float = 0.15
    cold: float = 0.01

    def __post_init__(self) -> None:
        if self.accesses < 0:
            raise UserError(f"actor.annealing: accesses must not be negative, not {self.accesses}")
        if self.cycle < 1:
            raise UserError(f"actor.annealing: cycle must be at least 1, not {self.cycle}")
        if not 0.0 < self.cold <= self.hot:
            raise UserError(
                f"actor.annealing: cold and hot must be above 0 and in order, not {self.cold} and {self.hot}"
            )


class Annealing:
    """Anneals one program, a little at a time; goes on where it stopped."""

    def __init__(self, played: PlayedProgram, config: AnnealingConfig, seed: int) -> None:
        """Begins from the best line."""
        self._played, self._config = played, config
        self._task = Task(played.program, None, None, Budget(None, 2**62), seed, game=played.new_game())
        self._begin()

    def _begin(self) -> None:
        task, played = self._task, self._played
        _, actions = played.best
        plan = np.zeros(len(task.tables.access), np.int8)
        plan_of_line(task.tables, task.state, task.legal, actions, len(actions), plan)
        self._walk = Walk(task, plan, _SEARCH)
        self._scale = scale_of(self._walk)
        self._games = 0

    def step(self) -> None:
        """Plays its share of games, and offers the best to the program."""
        config, task = self._config, self._task
        left = max(1, config.accesses // len(task.tables.access))
        while left:
            passed = self._games / config.cycle
            temperature = self._scale * config.hot * (config.cold / config.hot) ** passed
            games = min(left, max(1, config.cycle // 50))
            self._walk.step(games, temperature)
            self._games += games
            left -= games
            if self._games >= config.cycle:
                self._offer()
                self._begin()
        self._offer()

    def _offer(self) -> None:
        if self._walk.best_s >= self._played.best[0]:
            return
        game = self._played.new_game()
        play_to_end(game, self._walk.best_plan)
        self._played.offer(game.actions, self._played.outcome_s(game))

    def state(self) -> dict[str, Any]:
        """Returns where it stands as plain JSON values."""
        generator = self._task.generator.bit_generator.state
        return {"games": self._games, "scale": self._scale, "generator": generator, **self._walk.state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Goes to where `state` says."""
        self._walk.restore(state)
        self._games, self._scale = int(state["games"]), float(state["scale"])
        self._task.generator.bit_generator.state = state["generator"]
