"""Annealing beside the agent: improves the best lines of play, from which branches depart and learn."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...env.errors import UserError
from ...env.game.plan import plan_of_line
from ...solvers.anneal import SEARCH
from ...solvers.common.budget import ENDLESS
from ...solvers.common.line import play_to_end
from ...solvers.common.task import Task
from ...solvers.common.walk import Walk
from .programs import ProgramContext

# As the solver `anneal`, without preferences to wait, which are no moves of the game.
_SEARCH = SEARCH._replace(waits=False)


@dataclass(frozen=True)
class AnnealingConfig:
    """The amount of annealing.

    Attributes:
      accesses: accesses of one program that annealing plays in each slice of self-play; 0 for no annealing.
      cycle: games in which the temperature falls once.
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
    """Anneals one program in slices, each of which continues the one before."""

    def __init__(self, context: ProgramContext, config: AnnealingConfig, seed: int) -> None:
        """Begins at the best line."""
        self._context, self._config = context, config
        self._task = Task(context.program, None, None, ENDLESS, seed, game=context.new_game())
        self._begin()

    def _begin(self) -> None:
        """Begins a cycle at the best line."""
        task, context = self._task, self._context
        _, actions = context.best
        plan = np.zeros(len(task.tables.access), np.int8)
        plan_of_line(task.compiled, actions, len(actions), plan)
        self._walk = Walk(task, plan, _SEARCH)
        self._scale = self._walk.scale
        self._games = 0

    def step(self) -> None:
        """Plays a slice of games, and offers the best to the program."""
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
        """Makes the walk's best plan the best line if it is better."""
        if self._walk.best_s >= self._context.best[0]:
            return
        game = self._context.new_game()
        play_to_end(game, self._walk.best_plan)
        self._context.offer(game.actions, self._context.final_latency_s(game))

    def state(self) -> dict[str, Any]:
        """Returns the state as plain JSON values."""
        generator = self._task.generator.bit_generator.state
        return {"games": self._games, "scale": self._scale, "generator": generator, **self._walk.state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Restores what `state` returned."""
        self._walk.restore(state)
        self._games, self._scale = int(state["games"]), float(state["scale"])
        self._task.generator.bit_generator.state = state["generator"]
