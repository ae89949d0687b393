"""A walk over plans whose changes begin at the decisions where the policy disagrees with the line of play.

A walk (`solvers/common/walk.py`) tries thousands of changes of the best line in the real game; most have no effect or
do harm. The policy head evaluates the decisions of a line in one batch and gives each alternative move its odds against
the line's. Changes begin more often where these odds are high.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...env.compiled.kernel import kernel, vector
from ...env.game.current import Checkpoints, Current, accept, go_back, keep
from ...env.game.plan import TO_THE_END, Plan, PlanGame
from ..common.task import Task
from ..common.walk import Search, Walk
from .decisions import Change, Decisions, decisions_along
from .proposer import Proposer

# Bounds of the odds that count.
_MIN_ODDS, _MAX_ODDS = 0.05, 50.0
# Share of changes that begin where annealing without a policy would begin them.
_ANNEALING_SHARE = 0.35
# Trials at a decision after which the policy's odds for it count half.
_HALF_AFTER = 2.0
# Least odds of a move that is tried by itself.
_TRIED_FROM = 1.2


class GuidedWalk(Walk):
    """A walk whose changes begin where a proposer says."""

    def __init__(self, task: Task, plan: Plan, search: Search, proposer: Proposer) -> None:
        super().__init__(task, plan, search)
        self._proposer = proposer
        self._by_stake = np.diff(self._drawing.cumulative, prepend=0.0)
        self._shares = self._by_stake
        self._odds, self._trials = np.zeros(len(self._shares)), np.zeros(len(self._shares))
        self._proposals: list[Change] = []
        # `[A]` the place of each access among the free ones, or -1.
        self._place = np.full(len(task.tables.access), -1, np.int64)
        self._place[task.free] = np.arange(len(task.free))

    @property
    def shares(self) -> NDArray[np.float64]:
        """`[F]` shares of changes that begin at each free access."""
        return self._shares / self._shares.sum()

    @property
    def proposals(self) -> int:
        """Number of changes that the policy proposes and `try_proposals` has not tried yet."""
        return len(self._proposals)

    def query(self) -> None:
        """Asks the proposer about the current plan."""
        self._task.use(self._plan_tables)
        decisions = self._most_at_stake(decisions_along(self._task, self.plan))
        odds = self._proposer.odds(decisions)
        self._list(decisions, odds)
        largest = odds.max(axis=1).clip(_MIN_ODDS, _MAX_ODDS)
        place = self._place[decisions.access]
        self._odds[:] = _MIN_ODDS
        self._odds[place[place >= 0]] = largest[place >= 0]
        self._trials *= 0.5
        self._reweigh()

    def suggest(self, changes: Sequence[Change]) -> None:
        """Has `try_proposals` try these changes first, beginning with the last."""
        self._proposals += changes

    def try_proposals(self, games: int) -> int:
        """Plays up to `games` games, each with one change that the policy proposes, the likeliest first, and keeps what
        is better. Returns the number of games: fewer if no proposal of the last `query` is left."""
        task = self._task
        count = min(games, len(self._proposals))
        if not count:
            return 0
        tried = self._proposals[-count:][::-1]
        del self._proposals[-count:]
        task.use(self._plan_tables)
        _try_changes(
            task.plan_game,
            self._kept,
            self._current,
            np.array([access for access, _ in tried]),
            np.array([preference for _, preference in tried], np.int8),
        )
        task.evaluations += count
        task.offer(self.best_plan, self.best_s)
        return count

    def step(self, games: int, temperature: float) -> None:
        super().step(games, temperature)
        self._trials += games * self._shares
        self._reweigh()

    def _most_at_stake(self, decisions: Decisions) -> Decisions:
        """Returns the decisions that the proposer is asked about: as many as it takes, those with most at stake."""
        rows = self._proposer.batch_size
        if len(decisions.access) <= rows:
            return decisions
        place = self._place[decisions.access]
        stake = np.where(place >= 0, self._by_stake[place], 0.0)
        return decisions.at(np.sort(np.argsort(-stake, kind="stable")[:rows]))

    def _reweigh(self) -> None:
        """Sets where changes begin, once the proposer has been asked: by its odds, less where trials have failed."""
        if not self._odds.any():
            return
        odds = self._odds / (1.0 + self._trials / _HALF_AFTER)
        self._shares = _ANNEALING_SHARE * self._by_stake + (1.0 - _ANNEALING_SHARE) * odds / odds.sum()
        self._drawing.cumulative[:] = np.cumsum(self._shares) / self._shares.sum()

    def _list(self, decisions: Decisions, odds: NDArray[np.float64]) -> None:
        """Lists the moves that the policy prefers to the line's, the likeliest last."""
        rows, moves = np.nonzero(odds > _TRIED_FROM)
        order = np.argsort(odds[rows, moves], kind="stable")
        rows, moves = rows[order], moves[order]
        accesses, preferences = decisions.access[rows], decisions.preference[rows, moves]
        self._proposals = list(zip(accesses.tolist(), preferences.tolist(), strict=True))


@kernel(PlanGame, Checkpoints, Current, vector(np.int64), vector(np.int8))
def _try_changes(
    game: PlanGame, kept: Checkpoints, current: Current, accesses: np.ndarray, preferences: np.ndarray
) -> None:
    """Tries changes of one preference one after the other, and keeps those that improve the game."""
    tables, state, plan = game.tables, game.state, current.plan
    points = kept.points
    for number in range(len(accesses)):
        first = accesses[number]
        before = plan[first]
        plan[first] = preferences[number]
        point = go_back(game, kept, first)
        passed = point + 1
        over = False
        while not over:
            until = points[passed] if passed < len(points) else TO_THE_END
            access = game.play_until(tables, state, game.options, plan, current.trial_moves, until)
            while passed < len(points) and access >= points[passed]:
                keep(game, kept, 1 - kept.slot[passed], passed)
                passed += 1
            over = until == TO_THE_END
        judged = game.judge(tables, game.scoring, state)
        if judged >= current.seconds[0]:
            plan[first] = before
        else:
            accept(kept, current, point, judged)
