"""Where a policy would have it otherwise: annealing whose changes begin at the decisions that the network doubts.

A walk (`solvers/walk.py`) tries thousands of changes of the best line in the real game, most of which do nothing or
harm. The policy head sees all decisions of a line in one batch, and says for each how much likelier it holds another
move to be better than the line's. Changes begin there more often.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np
from numba import njit
from numpy.typing import NDArray

from ...actors.search.search import log_policy
from ...env.compiled.block import copy_block
from ...env.compiled.sorting import first_above
from ...env.compiled.unowned import unowned
from ...env.game.game import NUM_MOVES
from ...env.game.observation import OBSERVATION_SIZE, observe
from ...env.game.rules import catch_up, legal_moves, play, reset
from ...env.game.state import C_ACCESS, F_REWARD, State, Tables
from ...learner.networks.network import Network, Params
from ..common.outcome import Scoring, outcome
from ..common.plan import choose, preference_of
from ..common.task import Plan, Task
from ..common.walk import Search, Walk

# Decisions of a line that the network is asked about, always as many rows, so that little is compiled: it takes as long
# as some dozens of games.
_ROWS = 256
# Limits of how much likelier than the line's move another one counts; of chances left to annealing's own.
_LEAST, _MOST = 0.05, 50.0
_OWN_SHARE = 0.35
# Changes begun at a decision after which the policy's word for it counts half.
_TRIALS = 2.0
# How much likelier than the line's a move has to be to be tried for itself.
_WORTH = 1.2


# An access, and another preference for it.
Change = tuple[int, int]


class View(NamedTuple):
    """A line of play as the network sees it, for `N` decisions.

    Attributes:
      access: `[N]` what is decided.
      move: `[N]` the line's move.
      observation: `[N, OBSERVATION_SIZE]`.
      legal: `[N, 3]`.
      preference: `[N, 3]` the preference (`solvers/plan.py`) that leads to each move.
    """

    access: NDArray[np.int64]
    move: NDArray[np.int64]
    observation: NDArray[np.float32]
    legal: NDArray[np.bool_]
    preference: NDArray[np.int8]

    def at(self, rows: NDArray[np.int64]) -> "View":
        """Returns the part at some rows."""
        return View(self.access[rows], self.move[rows], self.observation[rows], self.legal[rows], self.preference[rows])


class Guide:
    """A policy that says where a line of play is worth changing."""

    def __init__(self, network: Network, params: Params) -> None:
        self._network, self.params = network, params

    def doubts(self, view: View) -> NDArray[np.float64]:
        """Returns `[N, 3]` how many times likelier than the line's move the policy holds each legal one; 0 elsewhere
        and at the line's own. `N` is at most 256."""
        rows = len(view.access)
        observation, legal = self._no_rows()
        observation[:rows], legal[:rows] = view.observation, view.legal
        found = np.asarray(log_policy(self._network, self.params, observation, legal), np.float64)[:rows]
        line = np.arange(rows), view.move
        # A plan may wait where the rules of the game would not let it: of that move the policy says nothing.
        own = np.where(view.legal[line], found[line], -np.log(np.maximum(view.legal.sum(axis=1), 1)))
        found = np.where(view.legal, np.exp(np.minimum(found - own[:, None], 20.0)), 0.0)
        found[line] = 0.0
        return found

    def compile(self) -> None:
        """Has the network compiled for the only size it is called with."""
        jax.block_until_ready(log_policy(self._network, self.params, *self._no_rows()))

    @staticmethod
    def _no_rows() -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        return np.zeros((_ROWS, OBSERVATION_SIZE), np.float32), np.ones((_ROWS, NUM_MOVES), np.bool_)


class GuidedWalk(Walk):
    """A walk whose changes begin where a guide says."""

    def __init__(self, task: Task, plan: Plan, search: Search, guide: Guide) -> None:
        super().__init__(task, plan, search)
        self._guide = guide
        self._own = np.diff(self._drawn, prepend=0.0)
        self._doubt, self._tried = np.zeros(len(self._own)), np.zeros(len(self._own))
        self._shares = self._own
        self._preferred: list[Change] = []
        self._place = np.full(len(task.tables.access), -1, np.int64)
        self._place[task.free] = np.arange(len(task.free))

    def aim(self) -> None:
        """Asks the guide anew, about the current plan."""
        self._task.take(self._clocked)
        view = self._at_stake(look(self._task, self.plan))
        doubts = self._guide.doubts(view)
        self._list(view, doubts)
        doubt = doubts.max(axis=1).clip(_LEAST, _MOST)
        place = self._place[view.access]
        self._doubt[:] = _LEAST
        self._doubt[place[place >= 0]] = doubt[place >= 0]
        self._tried *= 0.5
        self._weigh()

    def _at_stake(self, view: View) -> View:
        """Returns the part of a view that the policy is asked about: where most is at stake."""
        if len(view.access) <= _ROWS:
            return view
        place = self._place[view.access]
        stake = np.where(place >= 0, self._own[place], 0.0)
        return view.at(np.sort(np.argsort(-stake, kind="stable")[:_ROWS]))

    def _weigh(self) -> None:
        """Sets where changes begin from what the policy says, if it has been asked, less where trials have come to
        nothing."""
        if not self._doubt.any():
            return
        doubt = self._doubt / (1.0 + self._tried / _TRIALS)
        self._shares = _OWN_SHARE * self._own + (1.0 - _OWN_SHARE) * doubt / doubt.sum()
        self._drawn = np.cumsum(self._shares) / self._shares.sum()

    def step(self, games: int, temperature: float) -> None:
        super().step(games, temperature)
        self._tried += games * self._shares
        self._weigh()

    def _list(self, view: View, doubts: NDArray[np.float64]) -> None:
        """Lists the moves that the policy prefers to the line's, the likeliest last."""
        rows, moves = np.nonzero(doubts > _WORTH)
        order = np.argsort(doubts[rows, moves], kind="stable")
        rows, moves = rows[order], moves[order]
        self._preferred = list(zip(view.access[rows].tolist(), view.preference[rows, moves].tolist(), strict=True))

    def suggest(self, preferences: Sequence[Change]) -> None:
        """Has `correct` try these first, the last of them before all others."""
        self._preferred += preferences

    def correct(self, games: int) -> int:
        """Plays up to `games` games, each with one preference that the policy prefers, the likeliest first; keeps what is
        better. Returns how many were played: fewer if nothing is left since the last `aim`."""
        task = self._task
        count = min(games, len(self._preferred))
        if not count:
            return 0
        tried = self._preferred[-count:][::-1]
        del self._preferred[-count:]
        task.take(self._clocked)
        _correct(
            task.tables,
            task.scoring,
            task.state,
            task.block,
            self._bank,
            self._rewards,
            self._slot,
            self._points,
            task.legal,
            task.following,
            np.array([access for access, _ in tried]),
            np.array([preference for _, preference in tried], np.int8),
            self.plan,
            self.best_plan,
            self._moves,
            self._trial_moves,
            self._values,
        )
        task.evaluations += count
        task.offer(self.best_plan, self.best_s)
        return count


def look(task: Task, plan: Plan) -> View:
    """Returns what the network sees along the game that `plan` makes, at every decision that is one."""
    accesses = len(task.tables.access)
    view = View(
        np.zeros(accesses, np.int64),
        np.zeros(accesses, np.int64),
        np.zeros((accesses, OBSERVATION_SIZE), np.float32),
        np.zeros((accesses, NUM_MOVES), np.bool_),
        np.zeros((accesses, NUM_MOVES), np.int8),
    )
    count = _look(task.tables, task.state, task.legal, task.following, plan, *view)
    return View(
        view.access[:count], view.move[:count], view.observation[:count], view.legal[:count], view.preference[:count]
    )


@njit(cache=True, nogil=True)
def _look(
    tables: Tables,
    state: State,
    legal: np.ndarray,
    following: np.ndarray,
    plan: np.ndarray,
    accesses: np.ndarray,
    moves: np.ndarray,
    observations: np.ndarray,
    legals: np.ndarray,
    preferences: np.ndarray,
) -> int:
    tables, state = unowned(tables), unowned(state)
    reset(tables, state)
    count = 0
    while True:
        state.counters[C_ACCESS] = following[state.counters[C_ACCESS]]
        if not catch_up(tables, state):
            return count
        access = state.counters[C_ACCESS]
        decides = legal_moves(tables, state, legal) > 1
        if decides:
            accesses[count] = access
            legals[count] = legal
            observe(tables, state, legal, observations[count])
            for move in range(NUM_MOVES):
                preferences[count, move] = preference_of(tables, state, move)
        move = choose(tables, state, legal, plan[access])
        if decides:
            moves[count] = move
            count += 1
        play(tables, state, move)


@njit(cache=True, nogil=True)
def _correct(
    tables: Tables,
    scoring: Scoring,
    state: State,
    block: np.ndarray,
    bank: np.ndarray,
    rewards: np.ndarray,
    slot: np.ndarray,
    points: np.ndarray,
    legal: np.ndarray,
    following: np.ndarray,
    accesses: np.ndarray,
    preferences: np.ndarray,
    plan: np.ndarray,
    best_plan: np.ndarray,
    moves: np.ndarray,
    trial_moves: np.ndarray,
    values: np.ndarray,
) -> None:
    """Tries single preferences one after the other; those that make the game better stay. The banks are those of `Walk`."""
    tables, state = unowned(tables), unowned(state)
    for number in range(len(accesses)):
        first = accesses[number]
        before = plan[first]
        plan[first] = preferences[number]
        point = first_above(points, first) - 1
        copy_block(bank[slot[point], point], block)
        passed = point + 1
        while True:
            state.counters[C_ACCESS] = following[state.counters[C_ACCESS]]
            access = state.counters[C_ACCESS]
            while passed < len(points) and access >= points[passed]:
                copy_block(block, bank[1 - slot[passed], passed])
                rewards[1 - slot[passed], passed] = state.sums[F_REWARD]
                passed += 1
            if not catch_up(tables, state):
                break
            move = choose(tables, state, legal, plan[access])
            trial_moves[access] = move
            play(tables, state, move)
        seconds = outcome(tables, scoring, state)
        if seconds >= values[0]:
            plan[first] = before
            continue
        values[0] = seconds
        copy_block(trial_moves[points[point] :], moves[points[point] :])
        for k in range(point + 1, len(points)):
            slot[k] = 1 - slot[k]
        if seconds < values[1]:
            values[1] = seconds
            copy_block(plan, best_plan)
