"""The programs of an actor that plays the residency game: starting plans, and the best plan of each.

Shapes: `A` accesses of a program.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...env.errors import UserError
from ...env.game.moves import COPY
from ...env.game.plan import Plan, digits_of, plan_of_digits
from ...env.program.program import Program
from ...env.residency.changes import Changes, list_changes
from ...solvers.common.budget import ENDLESS
from ...solvers.common.follow import plan_of_mapping
from ...solvers.common.task import Task
from ...solvers.starts.portfolio import RULES, Portfolio
from .config import ActorConfig

# Programs that an actor keeps prepared at once.
_MOST_MADE = 64


class ResidencyProgram:
    """What all games on one program share.

    Attributes:
      task: the game that plans are played in; all its games take turns.
    """

    def __init__(
        self, program: Program, config: ActorConfig, found: dict[str, tuple[float, Plan]] | None = None
    ) -> None:
        """Prepares a program; `found` holds the best plans that games have found, by program, and is added to."""
        self._config = config
        self.task = Task(program, None, config.objective, ENDLESS, 0, game=config.game(program))
        self._found = {} if found is None else found

    @property
    def playable(self) -> bool:
        """False if the program leaves nothing to decide."""
        return len(self.task.free) > 0

    @property
    def program(self) -> Program:
        """The program."""
        return self.task.game.program

    @cached_property
    def changes(self) -> Changes:
        """The moves."""
        return list_changes(self.task.tables)

    @cached_property
    def starts(self) -> list[tuple[float, Plan]]:
        """Judged seconds and starting plans, the best first: the portfolio's rules, everything fast, and the plan that
        follows the mapping of `ActorConfig.followed`, if there is one."""
        task, program = self.task, self.program
        portfolio = Portfolio(task.tables, program.reserved)
        plans = [np.full(len(task.tables.access), COPY, np.int8)]
        plans += [plan for plan in map(portfolio.plan, RULES) if plan is not None]
        followed = self._config.followed(program)
        if followed is not None:
            plans.append(plan_of_mapping(program, followed))
        return sorted(((task.play(plan), plan) for plan in plans), key=lambda start: start[0])

    @property
    def best(self) -> tuple[float, Plan]:
        """Judged seconds and plan of the best game."""
        start, found = self.starts[0], self._found.get(self.program.name)
        return start if found is None or start[0] <= found[0] else found

    def offer(self, seconds: float, plan: Plan) -> None:
        """Keeps a plan if it is better than the best."""
        if seconds < self.best[0]:
            self._found[self.program.name] = seconds, plan.copy()


class ResidencyPool:
    """Programs that are prepared when their first game begins.

    Attributes:
      reported_s: judged seconds of the best plan of each program that has been reported.
    """

    def __init__(self, programs: Sequence[Program], config: ActorConfig) -> None:
        self._programs, self._config = list(programs), config
        self._made: dict[int, ResidencyProgram] = {}
        self._index = {program.name: index for index, program in enumerate(programs)}
        # Kept apart from what is made, because games go on with a program that has made way for another.
        self._found: dict[str, tuple[float, Plan]] = {}
        self.reported_s: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._programs)

    def __getitem__(self, index: int) -> ResidencyProgram:
        if index not in self._made:
            if len(self._made) >= _MOST_MADE:
                self._made.pop(next(iter(self._made)))
            self._made[index] = ResidencyProgram(self._programs[index], self._config, self._found)
        return self._made[index]

    def offer(self, name: str, seconds: float, plan: Sequence[int] | NDArray[np.int8]) -> None:
        """Keeps a plan of another actor; ignores programs that are not in the pool."""
        index = self._index.get(name)
        if index is None:
            return
        given = np.asarray(plan, np.int8)
        if len(given) != self._programs[index].num_accesses:
            raise UserError(f"actor: a plan of {name!r} has {len(given)} preferences, the program has other accesses")
        if index in self._made:
            self._made[index].offer(seconds, given)
        elif name not in self._found or seconds < self._found[name][0]:
            self._found[name] = seconds, given

    def saved(self) -> list[list[Any] | None]:
        """Returns the best plan of each program, as JSON values; None where there is none."""
        found = [self._found.get(program.name) for program in self._programs]
        return [None if best is None else [best[0], digits_of(best[1])] for best in found]

    def restore(self, saved: Sequence[Any]) -> None:
        """Restores what `saved` returned. Raises UserError if it is of other programs."""
        if len(saved) != len(self):
            raise UserError(f"actor: the saved state has {len(saved)} programs, the configuration {len(self)}")
        for program, entry in zip(self._programs, saved, strict=True):
            if entry is not None:
                self.offer(program.name, float(entry[0]), plan_of_digits(entry[1]))
