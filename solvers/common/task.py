"""One run of a solver: the game that it plays, its budget, and the best mapping so far."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...env.game.build_tables import build_tables
from ...env.game.game import DEFAULT_MSA_SHARE, DEFAULT_TRIVIAL_SHARE, MallocGame
from ...env.game.holding import HOLD_ALL, PerPass
from ...env.game.kernels import CompiledGame, judge
from ...env.game.options import new_options
from ...env.game.outcome import make_scoring
from ...env.game.plan import Plan, PlanGame, free_accesses, play_plan
from ...env.game.state import pooled_state
from ...env.game.tables import Tables
from ...env.program.mapping import Mapping
from ...env.program.program import Program
from ...env.program.target import Target
from .budget import CLOCKS, Budget, Progress, Status
from .exchange import Exchange
from .fill import fill

# At most a tenth of a second between looks at the clock, and a hundredth of a short budget.
_SECONDS_PER_LOOK, _SHARE_PER_LOOK = 0.1, 0.01
_MAX_GAMES_PER_LOOK = 10_000
_ACCESSES_PER_LOOK = 60_000
# Under `robust` the game's clock decides on idle time and on waits that pay. No share of `msa` is best everywhere.
_MSA_SHARES = (DEFAULT_MSA_SHARE, 0.15, 0.85, 0.03)
# Idle time that a prefetch looks for while a mapping is followed, in multiples of its need. XLA prefers as much.
_SLACK = 2.0
# Tables that a task keeps.
_MOST_TABLES = 16


class Best(NamedTuple):
    """The best offer so far.

    Attributes:
      seconds: judged; infinite before the first offer.
      plan: its plan, or None if the offer was a mapping.
      plan_tables: the tables that the plan is played on.
      mapping: its mapping, or None if it has not been made yet.
    """

    seconds: float
    plan: Plan | None
    plan_tables: "PlanTables"
    mapping: Mapping | None


class PlanTables(NamedTuple):
    """The tables that plans are played on, with one clock (`Judge.clock`). Shapes: `A` accesses, `F` free ones.

    Attributes:
      tables: with trivial buffers left in HBM.
      free: `[F]`, `free_accesses`.
      msa_share: the share of `msa` in the clock.
      per_pass: the buffers that loops do not hold (`env/game/holding.py`).
    """

    tables: Tables
    free: NDArray[np.int64]
    msa_share: float = DEFAULT_MSA_SHARE
    per_pass: PerPass = HOLD_ALL


class Task:
    """The task of a solver. It offers plans (`plan.py`) or whole mappings, and looks at `done` between games.

    Attributes:
      game: set up for the program and the objective; the solver may use its state.
      plan_tables: the tables that plans are played on now, at first those of the game (`use`).
      generator: the only source of randomness.
      evaluations: games finished so far.
      best_s: judged seconds of the best offer.
      best_plan: its plan; None if there is none.
      doing: the present phase, for the progress display.
      exchange: plans of other processes that search the same program; None if there are none.
      moves_made: `[A]` the moves of the last game played by `play`.
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
        exchange: Exchange | None = None,
        crossable: NDArray[np.bool_] | None = None,
    ) -> None:
        """Starts the clock. `stop` may ask for an early end; `game` may bring rules of its own; `crossable[N]` says
        which inputs may be prefetched across programs, None for all that the game allows."""
        self._now = CLOCKS[budget.clock]
        self._begin = self._now()
        self.game = MallocGame(program, target, objective) if game is None else game
        self._crossable = crossable
        self._restrict(self.game.tables)
        self.use(_plan_tables(self.game.tables))
        self._tables_by = {(DEFAULT_MSA_SHARE, HOLD_ALL): self.plan_tables}
        self.block, self.state = pooled_state(self.tables)
        self.game.state = self.state
        self.scoring = make_scoring(self.game.judge)
        self.options = new_options()
        self.budget, self.generator = budget, np.random.default_rng(seed)
        self.evaluations = 0
        self.best_s = np.inf
        self.best_plan: Plan | None = None
        self.best_tables = self.plan_tables
        self.doing = ""
        self._mapping: Mapping | None = None
        self._progress, self._stop = progress, stop
        self.exchange = exchange
        self.moves_made = np.zeros(len(self.tables.access), np.int8)

    @property
    def msa_shares(self) -> tuple[float, ...]:
        """The shares of `msa` in clocks worth trying; under a single cost model there is one clock."""
        return _MSA_SHARES if len(self.game.judge.models) > 1 else (DEFAULT_MSA_SHARE,)

    def tables_with(self, msa_share: float, per_pass: PerPass = HOLD_ALL) -> PlanTables:
        """Returns the tables with a share of `msa` in the clock, above 0 and below 1, and buffers that loops do not
        hold."""
        key = msa_share, per_pass
        if key not in self._tables_by:
            game, clock = self.game, self.game.judge.clock(msa_share)
            window = int(game.tables.limits.window)
            slack, patience = float(game.tables.rates.slack), float(game.tables.rates.patience)
            tables = build_tables(
                game.program, game.target, clock, window, DEFAULT_TRIVIAL_SHARE, slack, patience, per_pass
            )
            self._restrict(tables)
            if len(self._tables_by) >= _MOST_TABLES:
                del self._tables_by[next(iter(self._tables_by))]
            self._tables_by[key] = _plan_tables(tables, msa_share, per_pass)
        return self._tables_by[key]

    def _restrict(self, tables: Tables) -> None:
        """Takes from tables of its own the cross-program prefetches that may not be."""
        if self._crossable is not None:
            tables.buffer["cross"][~self._crossable] = 0

    def tables_following(self, msa_share: float, hints: NDArray[np.int64], per_pass: PerPass = HOLD_ALL) -> PlanTables:
        """Returns the tables with a share of `msa` in the clock, hints `[A, 3]` of a mapping (`MallocGame`), and early
        windows: a plan that follows the mapping loses little with them. `per_pass` as in `tables_with`."""
        plan_tables = self.tables_with(msa_share, per_pass)
        tables = plan_tables.tables.replace(
            access=plan_tables.tables.access.copy(), rates=plan_tables.tables.rates.copy()
        )
        tables.set_hints(hints)
        tables.rates.slack = _SLACK
        return plan_tables._replace(tables=tables)

    def with_per_pass(self, plan_tables: PlanTables, per_pass: PerPass) -> PlanTables:
        """Returns tables that differ from given ones in the buffers that loops do not hold."""
        other = self.tables_with(plan_tables.msa_share, per_pass)
        tables = other.tables.replace(access=other.tables.access.copy(), rates=plan_tables.tables.rates.copy())
        tables.set_hints(plan_tables.tables.hints())
        return other._replace(tables=tables)

    def use(self, plan_tables: PlanTables) -> None:
        """Plays plans on these tables from now on. The same plan makes another game with another clock."""
        if plan_tables is getattr(self, "plan_tables", None):
            return
        self.plan_tables = plan_tables
        self.tables, self.free = plan_tables.tables, plan_tables.free
        self._compiled: CompiledGame | None = None
        self._plan_game: PlanGame | None = None

    @property
    def compiled(self) -> CompiledGame:
        """The game for compiled players, on the present tables."""
        if self._compiled is None:
            self._compiled = CompiledGame(tables=self.tables, state=self.state, options=self.options, block=self.block)
        return self._compiled

    @property
    def plan_game(self) -> PlanGame:
        """The game for compiled searches, on the present tables."""
        if self._plan_game is None:
            self._plan_game = PlanGame(
                tables=self.tables,
                state=self.state,
                options=self.options,
                block=self.block,
                scoring=self.scoring,
            )
        return self._plan_game

    def part(self, share: float, stop: Callable[[], bool], shown: Callable[[Status], Status] | None = None) -> "Task":
        """Returns a task on the same game, with a share of the budget, no offers yet, and a generator of its own.

        Both share one state, so they take turns. `stop` may ask for an early end. `shown` turns the part's status into
        the status that the whole task reports; without it, the part reports nothing.
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
        progress = self._progress
        if progress is not None and shown is not None:
            part._progress = lambda status: progress(shown(status))
        return part

    @property
    def seconds(self) -> float:
        """Seconds since the beginning, by the budget's clock."""
        return self._now() - self._begin

    @property
    def seconds_left(self) -> float:
        """Seconds left of the budget; infinite without a limit of seconds.

        A library's own limit counts wall time, which is never less than the processor time of one thread.
        """
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
    def games_left(self) -> float:
        """The games that the rest of the budget allows, by the evaluations so far."""
        return self.evaluations * (1.0 - self.spent) / max(self.spent, 1e-9)

    @property
    def over(self) -> bool:
        """True once the budget is spent, or an early end was asked for."""
        return self.spent >= 1.0 or (self._stop is not None and self._stop())

    @property
    def done(self) -> bool:
        """Whether the task is `over`. Reading it also reports the progress."""
        if self._progress is not None:
            judge = self.game.judge
            self._progress(
                Status(self.seconds, self.evaluations, self.best_s, self.doing, judge.production_s, judge.objective)
            )
        return self.over

    def games_per_look(self) -> int:
        """Returns the number of games to play before the next look at `done`: about a tenth of a second's worth.

        Without a limit of seconds it depends on the program alone, so that runs repeat.
        """
        if self.budget.seconds is None:
            games = max(1, _ACCESSES_PER_LOOK // len(self.tables.access))
        else:
            seconds = self.seconds / max(self.evaluations, 1)
            look_s = min(_SECONDS_PER_LOOK, _SHARE_PER_LOOK * self.budget.seconds)
            games = max(1, int(min(look_s / max(seconds, 1e-9), _MAX_GAMES_PER_LOOK)))
        left = games if self.budget.evaluations is None else self.budget.evaluations - self.evaluations
        return max(0, min(games, left))

    def play(self, plan: Plan) -> float:
        """Plays a game by `plan`, offers it, and returns its judged seconds."""
        play_plan(self.plan_game, plan, self.moves_made)
        return self.finished(plan)

    def finished(self, plan: Plan) -> float:
        """Counts, judges and offers the finished game in `state`, which `plan` made; returns its judged seconds."""
        self.evaluations += 1
        seconds = float(judge(self.tables, self.scoring, self.state))
        self.offer(plan, seconds)
        return seconds

    def offer(self, plan: Plan, seconds: float) -> bool:
        """Keeps `plan` if its game, of `seconds` and already counted, is the best so far; returns whether it is."""
        if seconds >= self.best_s:
            return False
        self.best_s, self.best_plan, self._mapping = seconds, plan.copy(), None
        self.best_tables = self.plan_tables
        return True

    @property
    def best(self) -> Best:
        """The best offer so far."""
        return Best(self.best_s, self.best_plan, self.best_tables, self._mapping)

    def go_back(self, best: Best) -> None:
        """Withdraws the offers made since `best` was the best one."""
        self.best_s, self.best_plan, self.best_tables, self._mapping = best

    def offer_mapping(self, mapping: Mapping) -> float:
        """Judges a mapping that no plan has made, and keeps it if it is the best so far; returns its judged seconds."""
        self.evaluations += 1
        seconds = self.game.judge.judge(mapping)
        if seconds < self.best_s:
            self.best_s, self.best_plan, self._mapping = seconds, None, mapping
        return seconds

    def mapping(self) -> Mapping | None:
        """Returns the mapping of the best offer, with its free memory filled; None if there was no offer."""
        if self._mapping is None and self.best_plan is not None:
            self.use(self.best_tables)
            play_plan(self.plan_game, self.best_plan, self.moves_made)
            self.game.take_over(tables=self.tables)
            if not abs(self.game.latency_s - self.best_s) <= 1e-9 * self.best_s:
                raise RuntimeError(
                    f"the best game of {self.game.program.name!r} came to {self.best_s * 1e6:.3f} us, its plan replays "
                    f"to {self.game.latency_s * 1e6:.3f} us. Compiled code may be left over from other sources (Numba "
                    "does not see changes in what a function calls): delete the __pycache__ folders. If that does not "
                    "help, the solver is at fault; please report it with this command"
                )
            self._mapping = self.game.mapping()
        return None if self._mapping is None else fill(self.game.judge, self._mapping)


def _plan_tables(tables: Tables, msa_share: float = DEFAULT_MSA_SHARE, per_pass: PerPass = HOLD_ALL) -> PlanTables:
    tables = tables.without_trivial()
    return PlanTables(tables, free_accesses(tables), msa_share, per_pass)
