"""One run of a solver: the game it plays, what it may spend, and the best mapping so far."""

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...env.errors import UserError
from ...env.game.game import DEFAULT_MSA_SHARE, DEFAULT_TRIVIAL_SHARE, MallocGame
from ...env.game.state import (
    B_PLAYED,
    B_TRIVIAL,
    HINTS,
    L_WINDOW,
    R_PATIENCE,
    R_SLACK,
    Tables,
    build_tables,
    pooled_state,
)
from ...env.program.mapping import Mapping
from ...env.program.program import Program
from ...env.program.target import Target
from .fill import fill
from .outcome import make_scoring, outcome
from .plan import free_accesses, next_placeable, play_plan

Plan = NDArray[np.int8]

# What seconds are counted by.
WALL, PROCESSOR = "wall", "processor"
_CLOCKS: dict[str, Callable[[], float]] = {WALL: time.perf_counter, PROCESSOR: time.process_time}
# At most a tenth of a second between looks at the clock, and of a short budget a hundredth.
_SECONDS_PER_LOOK, _SHARE_PER_LOOK = 0.1, 0.01
_MOST_PER_LOOK = 10_000
_ACCESSES_PER_LOOK = 60_000
# Under `robust` the game's clock decides what counts as idle time and as a wait worth its while. No share of `msa` is
# best on all programs.
_MSA_SHARES = (DEFAULT_MSA_SHARE, 0.15, 0.85, 0.03)
# Idle time that a prefetch looks for where a mapping is followed, in multiples of its need: XLA prefers as much.
_SLACK = 2.0


@dataclass(frozen=True)
class Budget:
    """What a solver may spend; whichever comes first.

    Attributes:
      seconds: None for no limit.
      evaluations: finished games; a run that this limit ends repeats exactly. None for no limit.
      clock: what seconds are counted by: `wall`, or `processor`, the time that all threads of this process have run,
        which other work on the machine changes little.
    """

    seconds: float | None = 60.0
    evaluations: int | None = None
    clock: str = WALL

    def __post_init__(self) -> None:
        """Checks the limits. Raises `UserError` if one makes no sense, or there is none."""
        if self.clock not in _CLOCKS:
            raise UserError(f"seconds cannot be counted by {self.clock!r}; give one of {', '.join(_CLOCKS)}")
        if self.seconds is None and self.evaluations is None:
            raise UserError("a solver without any limit would never end; give seconds or evaluations")
        if self.seconds is not None and not self.seconds >= 0:
            raise UserError(f"a limit of {self.seconds} seconds cannot be kept; give 0 or more")
        if self.evaluations is not None and self.evaluations < 0:
            raise UserError(f"a limit of {self.evaluations} evaluations cannot be kept; give 0 or more")


@dataclass(frozen=True)
class Status:
    """Where a solver stands.

    Attributes:
      seconds, evaluations: spent.
      best_s: judged seconds of the best game so far; infinite before the first one.
      doing: what it does, in a word or two.
    """

    seconds: float
    evaluations: int
    best_s: float
    doing: str


class Best(NamedTuple):
    """The best offer so far.

    Attributes:
      seconds: judged; infinite before the first offer.
      plan, clocked: what makes it; None if no plan does.
      mapping: None if it has not been made yet.
    """

    seconds: float
    plan: Plan | None
    clocked: "Clocked"
    mapping: Mapping | None


Progress = Callable[[Status], None]


class Clocked(NamedTuple):
    """What plans are played on: the rules with one clock (`Judge.clock`). Shapes: `A` accesses, `F` free ones.

    Attributes:
      tables: with trivial buffers left in HBM.
      following: `[A + 1]`, `next_placeable`.
      free: `[F]`, `free_accesses`.
    """

    tables: Tables
    following: NDArray[np.int64]
    free: NDArray[np.int64]


class Task:
    """What a solver is given. It offers plans (`plan.py`), or whole mappings, and looks at `done` between games.

    Attributes:
      game: set up for the program and objective; its state is the solver's to use.
      clocked: what plans are played on now; that of the game at first (`take`, `clock`).
      generator: the only source of chance.
      evaluations: games finished so far.
      best_s: judged seconds of the best offer.
      best_plan: its plan; None where there is none.
      doing: what the progress display says.
    """

    def __init__(
        self,
        program: Program,
        target: Target | None,
        objective: str | None,
        budget: Budget,
        seed: int,
        progress: Progress | None = None,
        stop: Callable[[], bool] | None = None,
        game: MallocGame | None = None,
    ) -> None:
        """Begins. The clock starts here. `stop` may ask for an early end; `game` may bring rules of its own."""
        self._now = _CLOCKS[budget.clock]
        self._begin = self._now()
        self.game = MallocGame(program, target, objective) if game is None else game
        self.take(_clocked(self.game.tables))
        self._clocks = {DEFAULT_MSA_SHARE: self.clocked}
        self.block, self.state = pooled_state(self.tables)
        self.game.state = self.state
        self.scoring = make_scoring(self.game)
        self.legal = np.zeros(3, np.bool_)
        self.budget, self.generator = budget, np.random.default_rng(seed)
        self.evaluations = 0
        self.best_s = np.inf
        self.best_plan: Plan | None = None
        self.best_clocked = self.clocked
        self.doing = ""
        self._mapping: Mapping | None = None
        self._progress, self._stop = progress, stop
        self._moves = np.zeros(len(self.tables.access), np.int8)

    @property
    def clocks(self) -> tuple[float, ...]:
        """The shares of `msa` in clocks worth trying; under a single cost model there is one clock."""
        return _MSA_SHARES if len(self.game.judge.models) > 1 else (DEFAULT_MSA_SHARE,)

    def clock(self, msa_share: float) -> Clocked:
        """Returns what plans are played on with a share of `msa` in the clock, above 0 and below 1."""
        if msa_share not in self._clocks:
            game, clock = self.game, self.game.judge.clock(msa_share)
            window = int(game.tables.limits[L_WINDOW])
            slack, patience = game.tables.rates[[R_SLACK, R_PATIENCE]].tolist()
            self._clocks[msa_share] = _clocked(
                build_tables(game.program, game.target, clock, window, DEFAULT_TRIVIAL_SHARE, slack, patience)
            )
        return self._clocks[msa_share]

    def following_clock(self, msa_share: float, hints: NDArray[np.int64]) -> Clocked:
        """Returns the same as `clock`, but games that prefer what `hints` say (`MallocGame`), and early windows: a
        plan that follows a mapping loses little then."""
        clocked = self.clock(msa_share)
        access, rates = clocked.tables.access.copy(), clocked.tables.rates.copy()
        access[:, HINTS] = hints
        rates[R_SLACK] = _SLACK
        return clocked._replace(tables=clocked.tables._replace(access=access, rates=rates))

    def take(self, clocked: Clocked) -> None:
        """Has plans played on `clocked` from now on. A plan makes another game with another clock."""
        self.clocked = clocked
        self.tables, self.following, self.free = clocked

    def part(self, share: float, stop: Callable[[], bool]) -> "Task":
        """Returns a task on the same game, with a share of the budget, no offers yet, and chance of its own.

        It plays on the state of this one, so the two take turns. `stop` may ask for an early end.
        """
        part, budget = copy.copy(self), self.budget
        part.budget = replace(
            budget,
            seconds=None if budget.seconds is None else share * budget.seconds,
            evaluations=None if budget.evaluations is None else int(share * budget.evaluations),
        )
        part.generator = np.random.default_rng(int(self.generator.integers(2**31)))
        part.evaluations, part.best_s, part.best_plan, part._mapping = 0, np.inf, None, None
        part._begin, part._progress, part._stop = self._now(), None, stop
        return part

    @property
    def seconds(self) -> float:
        """Seconds since the beginning, by the budget's clock."""
        return self._now() - self._begin

    @property
    def seconds_left(self) -> float:
        """Seconds that the budget leaves; infinite without a limit of seconds. A library's own limit is of wall time,
        which is never less than the processor time of one thread."""
        return np.inf if self.budget.seconds is None else max(0.0, self.budget.seconds - self.seconds)

    @property
    def spent(self) -> float:
        """The share of the budget that is spent, up to 1."""
        shares = [0.0]
        if self.budget.seconds is not None:
            shares.append(self.seconds / self.budget.seconds if self.budget.seconds > 0 else 1.0)
        if self.budget.evaluations is not None:
            shares.append(self.evaluations / self.budget.evaluations if self.budget.evaluations > 0 else 1.0)
        return min(max(shares), 1.0)

    @property
    def done(self) -> bool:
        """Whether to end: the budget is spent, or somebody asked for it. Also the place where progress is shown."""
        if self._progress is not None:
            self._progress(Status(self.seconds, self.evaluations, self.best_s, self.doing))
        return self.spent >= 1.0 or (self._stop is not None and self._stop())

    def games_per_look(self) -> int:
        """Returns how many games to play before looking at `done` again: a tenth of a second's worth, less of a short
        budget.

        Without a limit of seconds the number depends on the program alone, so that runs repeat.
        """
        if self.budget.seconds is None:
            games = max(1, _ACCESSES_PER_LOOK // len(self.tables.access))
        else:
            seconds = self.seconds / max(self.evaluations, 1)
            look_s = min(_SECONDS_PER_LOOK, _SHARE_PER_LOOK * self.budget.seconds)
            games = max(1, int(min(look_s / max(seconds, 1e-9), _MOST_PER_LOOK)))
        left = games if self.budget.evaluations is None else self.budget.evaluations - self.evaluations
        return max(0, min(games, left))

    def play(self, plan: Plan) -> float:
        """Plays a game by `plan`, offers it, and returns its judged seconds."""
        play_plan(self.tables, self.state, self.legal, self.following, plan, self._moves)
        return self.finished(plan)

    def finished(self, plan: Plan) -> float:
        """Counts, judges and offers the finished game in `state`, which `plan` made; returns its judged seconds."""
        self.evaluations += 1
        seconds = float(outcome(self.tables, self.scoring, self.state))
        self.offer(plan, seconds)
        return seconds

    def offer(self, plan: Plan, seconds: float) -> bool:
        """Keeps `plan` if it is the best so far. It must make a game of `seconds`, already counted."""
        if seconds >= self.best_s:
            return False
        self.best_s, self.best_plan, self._mapping = seconds, plan.copy(), None
        self.best_clocked = self.clocked
        return True

    @property
    def best(self) -> Best:
        """The best offer so far."""
        return Best(self.best_s, self.best_plan, self.best_clocked, self._mapping)

    def go_back(self, best: Best) -> None:
        """Takes back what has been offered since `best` was the best offer."""
        self.best_s, self.best_plan, self.best_clocked, self._mapping = best

    def offer_mapping(self, mapping: Mapping) -> float:
        """Judges a mapping that no plan has made, keeps it if it is the best so far; returns its judged seconds."""
        self.evaluations += 1
        seconds = self.game.judge.judge(mapping)
        if seconds < self.best_s:
            self.best_s, self.best_plan, self._mapping = seconds, None, mapping
        return seconds

    def mapping(self) -> Mapping | None:
        """Returns the mapping of the best offer, with the room that is left filled; None if there was no offer."""
        if self._mapping is None and self.best_plan is not None:
            self.take(self.best_clocked)
            play_plan(self.tables, self.state, self.legal, self.following, self.best_plan, self._moves)
            self.game.take_over()
            if not abs(self.game.latency_s - self.best_s) <= 1e-9 * self.best_s:
                raise RuntimeError(
                    f"the best game of {self.game.program.name!r} came to {self.best_s * 1e6:.3f} us, its plan replays "
                    f"to {self.game.latency_s * 1e6:.3f} us. Compiled code may be left over from other sources (Numba "
                    "does not see changes in what a function calls): delete the __pycache__ folders. If that does not "
                    "help, the solver is at fault; please report it with this command"
                )
            self._mapping = self.game.mapping()
        return None if self._mapping is None else fill(self.game.judge, self._mapping)


def _clocked(tables: Tables) -> Clocked:
    buffer = tables.buffer.copy()
    buffer[buffer[:, B_TRIVIAL] == 1, B_PLAYED] = 0
    tables = tables._replace(buffer=buffer)
    return Clocked(tables, next_placeable(tables), free_accesses(tables))
