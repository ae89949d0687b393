"""The budget of a solver, and its progress."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from ...env.errors import UserError

# Clocks that count seconds.
WALL, PROCESSOR = "wall", "processor"
CLOCKS: dict[str, Callable[[], float]] = {WALL: time.perf_counter, PROCESSOR: time.process_time}


@dataclass(frozen=True)
class Budget:
    """The limits of a solver; the first one reached ends it.

    Attributes:
      seconds: None for no limit.
      evaluations: finished games; None for no limit. With this limit alone, a run repeats exactly with its seed.
      clock: `wall`, or `processor`: the time that all threads of this process have run, which other work on the machine
        hardly affects.
    """

    seconds: float | None = 60.0
    evaluations: int | None = None
    clock: str = WALL

    def __post_init__(self) -> None:
        """Raises `UserError` if a limit makes no sense, or if there is none."""
        if self.clock not in CLOCKS:
            raise UserError(f"seconds cannot be counted by {self.clock!r}; give one of {', '.join(CLOCKS)}")
        if self.seconds is None and self.evaluations is None:
            raise UserError("a solver without any limit would never end; give seconds or evaluations")
        if self.seconds is not None and not 0 <= self.seconds < math.inf:
            raise UserError(f"a limit of {self.seconds} seconds cannot be kept; give a finite number, 0 or more")
        if self.evaluations is not None and self.evaluations < 0:
            raise UserError(f"a limit of {self.evaluations} evaluations cannot be kept; give 0 or more")


@dataclass(frozen=True)
class Status:
    """The progress of a solver.

    Attributes:
      seconds, evaluations: spent.
      best_s: judged seconds of the best game so far; infinite before the first one.
      doing: the present phase, in a word or two.
      production_s: judged seconds of XLA's own mapping; None if the program has none.
      objective: the objective that judges.
    """

    seconds: float
    evaluations: int
    best_s: float
    doing: str
    production_s: float | None = None
    objective: str = ""


Progress = Callable[[Status], None]


# For games that are counted elsewhere. This many are never played.
ENDLESS = Budget(None, 2**62)
