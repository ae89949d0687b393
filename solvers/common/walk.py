"""A walk over plans: change a preference or a few, play on from there, keep it if it is better or by chance.

A game is not played again from its beginning: states are kept at points along the current game, and a change starts
from the last one before it. Nor is it always played to its end: whether it will be kept is drawn beforehand, and where
it has fallen behind the current game, by the game's own account, by more than games make up for, it is given up.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ...env.compiled.block import copy_block
from ...env.compiled.sorting import first_above
from ...env.compiled.unowned import unowned
from ...env.game.rules import COPY, DROP, NO_COPY, catch_up, play, reset
from ...env.game.state import (
    A_BUFFER,
    A_DUE,
    A_HINT,
    A_KIND,
    A_NEXT,
    A_SINCE,
    AF_AHEAD,
    AF_BENEFIT,
    C_ACCESS,
    F_REWARD,
    State,
    Tables,
)
from ...env.program.program import OPERAND
from .outcome import Scoring, outcome
from .plan import CROSS_PROGRAM_FETCH, WAIT, choose, is_constant
from .task import Plan, Task

# States kept along a game.
_POINTS = 24
_PROBES = 60
_NEAR = 40
_MOST_CHANGES = 64
# Share of games that are played to their end in any case, and of those that would be given up wrongly.
_SURE, _WRONG = 0.1, 0.05
_FIRST_SURE = 40
_LAGS = 6


class Search(NamedTuple):
    """How a walk changes plans.

    Attributes:
      waits: preferences to wait are among the changes.
      gives_up: games that fall behind are not played to their end.
      uniform: share of changes that begin at any access alike; the others begin where more is at stake.
      single, pair, forward: shares of changes of one preference, of two near each other, and of all preferences of a buffer from
        there on; the rest exchange two buffers that are near each other.
    """

    waits: bool = False
    gives_up: bool = False
    uniform: float = 1.0
    single: float = 0.5
    pair: float = 0.25
    forward: float = 0.25


PLAIN = Search()


class Walk:
    """A current plan and its game; `step` walks on."""

    def __init__(self, task: Task, plan: Plan, search: Search = PLAIN) -> None:
        """Plays `plan`. The walk keeps to the clock that `task` has now."""
        self._task, self._search, self._clocked = task, search, task.clocked
        accesses = len(task.tables.access)
        self._points = np.unique(np.linspace(0, accesses, _POINTS, endpoint=False).astype(np.int64))
        self._bank = np.zeros((2, len(self._points), len(task.block)), np.uint8)
        self._rewards = np.zeros((2, len(self._points)))
        self._slot = np.zeros(len(self._points), np.int64)
        self._drawn = _drawn(task.tables, task.free, search.uniform)
        self._regained = np.zeros((2, _LAGS))  # quantile, and mean size
        self._sure = np.zeros(1, np.int64)
        self.plan: Plan = plan.copy()
        self.best_plan: Plan = plan.copy()
        self._moves = np.zeros(accesses, np.int8)
        self._trial_moves = np.zeros(accesses, np.int8)
        self._deltas = np.zeros(_PROBES)
        seconds = self._play()
        self._values = np.array([seconds, seconds])  # current, best
        task.evaluations += 1
        task.offer(self.plan, seconds)

    def _play(self) -> float:
        task = self._task
        return _begin(
            task.tables,
            task.scoring,
            task.state,
            task.block,
            self._bank,
            self._rewards,
            self._points,
            task.legal,
            task.following,
            self.plan,
            self._moves,
        )

    @property
    def current_s(self) -> float:
        """Judged seconds of the current game."""
        return float(self._values[0])

    @property
    def best_s(self) -> float:
        """Judged seconds of the best game, that of `best_plan`."""
        return float(self._values[1])

    def state(self) -> dict[str, Any]:
        """Returns where it stands as plain JSON values; `restore` goes on from there, with the same generator."""
        plan, best_plan = ("".join(map(str, preferences.tolist())) for preferences in (self.plan, self.best_plan))
        return {
            "plan": plan,
            "best_plan": best_plan,
            "best_s": self.best_s,
            "regained": self._regained.tolist(),
            "sure": int(self._sure[0]),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Goes to where `state` says."""
        self.plan[:] = np.array(list(state["plan"]), np.int8)
        self._slot[:] = 0
        self._values[0] = self._play()
        self.best_plan[:] = np.array(list(state["best_plan"]), np.int8)
        self._values[1] = float(state["best_s"])
        self._regained[:] = state.get("regained", 0.0)
        self._sure[0] = state.get("sure", 0)

    def step(self, games: int, temperature: float) -> None:
        """Plays `games` changed games at a temperature in seconds; at 0 only improvements are kept."""
        self._run(games, temperature, False)

    def differences(self) -> NDArray[np.float64]:
        """Returns seconds by which single changes of the current game differ from it, those that change nothing left
        out."""
        games = min(_PROBES, self._task.games_per_look())
        self._deltas[:] = 0.0
        self._run(games, 0.0, True)
        found = np.abs(self._deltas[np.isfinite(self._deltas)])
        return found[found > 0.0]

    def _run(self, games: int, temperature: float, probe: bool) -> None:
        task, search = self._task, self._search
        task.take(self._clocked)
        _steps(
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
            task.free,
            self._drawn,
            self.plan,
            self.best_plan,
            self._moves,
            self._trial_moves,
            self._values,
            self._deltas,
            self._regained,
            self._sure,
            task.generator,
            search,
            temperature,
            games,
            probe,
        )
        task.evaluations += games
        task.offer(self.best_plan, float(self._values[1]))


def _drawn(tables: Tables, free: NDArray[np.int64], uniform: float) -> NDArray[np.float64]:
    """Returns `[F]` cumulative probabilities of the free accesses to begin a change at.

    At stake is what an operand gains, and for a result also half of what later reads of it gain.
    """
    if not len(free):
        return np.zeros(0)
    stake = np.abs(tables.access_f[free, AF_BENEFIT])
    result = tables.access[free, A_KIND] != OPERAND
    stake[result] = 0.5 * (stake[result] + np.abs(tables.access_f[free, AF_AHEAD][result]))
    total = stake.sum()
    share = np.full(len(free), 1.0 / len(free))
    if total > 0.0:
        share = uniform * share + (1.0 - uniform) * stake / total
    return np.cumsum(share) / share.sum()


@njit(cache=True, nogil=True)
def _begin(
    tables: Tables,
    scoring: Scoring,
    state: State,
    block: np.ndarray,
    bank: np.ndarray,
    rewards: np.ndarray,
    points: np.ndarray,
    legal: np.ndarray,
    following: np.ndarray,
    plan: np.ndarray,
    moves: np.ndarray,
) -> float:
    """Plays `plan` from the beginning and keeps its states in `bank[0]`; returns its seconds."""
    tables, state = unowned(tables), unowned(state)
    reset(tables, state)
    point = 0
    while True:
        state.counters[C_ACCESS] = following[state.counters[C_ACCESS]]
        access = state.counters[C_ACCESS]
        while point < len(points) and access >= points[point]:
            copy_block(block, bank[0, point])
            rewards[0, point] = state.sums[F_REWARD]
            point += 1
        if not catch_up(tables, state):
            return outcome(tables, scoring, state)
        moves[access] = choose(tables, state, legal, plan[access])
        play(tables, state, moves[access])


@njit(cache=True, nogil=True)
def _steps(
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
    free: np.ndarray,
    drawn: np.ndarray,
    plan: np.ndarray,
    best_plan: np.ndarray,
    moves: np.ndarray,
    trial_moves: np.ndarray,
    values: np.ndarray,
    deltas: np.ndarray,
    regained: np.ndarray,
    sure_games: np.ndarray,
    generator: np.random.Generator,
    search: Search,
    temperature: float,
    games: int,
    probe: bool,
) -> None:
    """Tries `games` changes. With `probe` they are single ones, none is kept, and `deltas` gets what they make."""
    tables, state = unowned(tables), unowned(state)
    changed = np.zeros(_MOST_CHANGES, np.int64)
    before = np.zeros(_MOST_CHANGES, np.int8)
    behind = np.zeros(_LAGS)
    for game in range(games):
        count = _change(tables, free, drawn, plan, moves, generator, search, changed, before, probe)
        first, last = changed[0], changed[0]
        for k in range(count):
            first, last = min(first, changed[k]), max(last, changed[k])
        # Whether it is kept is drawn now: then it is known how much worse it may be.
        allowed = 0.0
        if temperature > 0.0 and not probe:
            allowed = -temperature * np.log(max(generator.random(), 1e-300))
        sure = probe or not search.gives_up
        if not sure:
            sure = sure_games[0] < _FIRST_SURE or generator.random() < _SURE
        point = first_above(points, first) - 1
        copy_block(bank[slot[point], point], block)
        passed = point + 1
        lag = 0
        same, over, given_up = True, False, False
        while not over and not given_up:
            state.counters[C_ACCESS] = following[state.counters[C_ACCESS]]
            access = state.counters[C_ACCESS]
            if same and access > last:
                break  # the preferences were different, the moves are not
            while passed < len(points) and access >= points[passed]:
                copy_block(block, bank[1 - slot[passed], passed])
                rewards[1 - slot[passed], passed] = state.sums[F_REWARD]
                if points[passed] > last and lag < _LAGS:
                    behind[lag] = rewards[slot[passed], passed] - state.sums[F_REWARD]
                    given_up = given_up or (not sure and behind[lag] > allowed + regained[0, lag])
                    lag += 1
                passed += 1
            over = not catch_up(tables, state)
            if not over:
                move = choose(tables, state, legal, plan[access])
                same = same and (access < first or move == moves[access])
                same = same and not _waits_otherwise(tables, plan, access, move, changed, before, count)
                trial_moves[access] = move
                play(tables, state, move)
        if same:
            if probe:
                deltas[game] = 0.0
                _restore(plan, changed, before, count)
            continue  # the new preferences cost nothing: keep them
        if given_up:
            _restore(plan, changed, before, count)
            continue
        seconds = outcome(tables, scoring, state)
        worse = seconds - values[0]
        if probe:
            deltas[game] = worse
            _restore(plan, changed, before, count)
            continue
        if sure and search.gives_up:
            sure_games[0] += 1
            _learn(regained, behind, lag, worse, sure_games[0])
        if worse <= allowed:
            values[0] = seconds
            copy_block(trial_moves[points[point] :], moves[points[point] :])
            for k in range(point + 1, len(points)):
                slot[k] = 1 - slot[k]
            if seconds < values[1]:
                values[1] = seconds
                copy_block(plan, best_plan)
        else:
            _restore(plan, changed, before, count)


@njit(cache=True, nogil=True, forceinline=True)
def _waits_otherwise(
    tables: Tables, plan: np.ndarray, access: int, move: int, changed: np.ndarray, before: np.ndarray, count: int
) -> bool:
    """Returns whether a move that is the same as before may run otherwise: a prefetch that would wait for too long when
    it keeps to the hinted time takes another window, unless its preference is to wait."""
    if (
        move != COPY
        or tables.access[access, A_HINT] < 0
        or tables.access[access, A_SINCE] >= tables.access[access, A_DUE]
    ):
        return False
    otherwise = False
    for k in range(count):
        otherwise = otherwise or (changed[k] == access and (before[k] == WAIT) != (plan[access] == WAIT))
    return otherwise


@njit(cache=True, nogil=True)
def _learn(regained: np.ndarray, behind: np.ndarray, lags: int, worse: float, games: int) -> None:
    """Moves the quantiles of what a game makes up for after a point towards what this one has."""
    for lag in range(lags):
        gain = behind[lag] - worse
        regained[1, lag] += (abs(gain) - regained[1, lag]) * max(0.02, 1.0 / games)
        step = 0.5 * regained[1, lag]
        regained[0, lag] += step * (1.0 - _WRONG) if gain > regained[0, lag] else -step * _WRONG
        regained[0, lag] = max(regained[0, lag], 0.0)


@njit(cache=True, nogil=True, forceinline=True)
def _change(
    tables: Tables,
    free: np.ndarray,
    drawn: np.ndarray,
    plan: np.ndarray,
    moves: np.ndarray,
    generator: np.random.Generator,
    search: Search,
    changed: np.ndarray,
    before: np.ndarray,
    single: bool,
) -> int:
    """Changes a preference or several in place; returns how many, with places and former preferences."""
    index = int(first_above(drawn, generator.random()))
    index = min(index, len(free) - 1)
    kind = 0.0 if single else generator.random()
    access = free[index]
    if kind < search.single + search.pair + search.forward:
        preference = _other(tables, plan, access, generator, search.waits)
        count = _set(plan, access, preference, changed, before, 0)
        if kind < search.single:
            return count
        if kind >= search.single + search.pair:
            return _set_onwards(tables, plan, moves, access, preference, False, changed, before, count)
        near = _near(free, index, generator)
        if near != access:
            count = _set(plan, near, _other(tables, plan, near, generator, search.waits), changed, before, count)
        return count
    # Two buffers change places: one leaves, another comes, each until it is written anew.
    comes = moves[access] == DROP
    fast = WAIT if search.waits and generator.random() < 0.25 else (COPY if generator.random() < 0.5 else NO_COPY)
    count = _set(plan, access, fast if comes else DROP, changed, before, 0)
    count = _set_onwards(tables, plan, moves, access, fast if comes else DROP, True, changed, before, count)
    for _ in range(4):
        near = _near(free, index, generator)
        if tables.access[near, A_BUFFER] != tables.access[access, A_BUFFER] and (moves[near] == DROP) != comes:
            count = _set(plan, near, DROP if comes else fast, changed, before, count)
            return _set_onwards(tables, plan, moves, near, DROP if comes else fast, True, changed, before, count)
    return count


@njit(cache=True, nogil=True)
def _near(free: np.ndarray, index: int, generator: np.random.Generator) -> int:
    near = index + int(generator.random() * (2 * _NEAR + 1)) - _NEAR
    return free[min(max(near, 0), len(free) - 1)]


@njit(cache=True, nogil=True)
def _set(plan: np.ndarray, access: int, preference: int, changed: np.ndarray, before: np.ndarray, count: int) -> int:
    """Changes a preference and notes what it was; returns how many are noted then."""
    if count == _MOST_CHANGES:
        return count
    changed[count] = access
    before[count] = plan[access]
    plan[access] = preference
    return count + 1


@njit(cache=True, nogil=True, forceinline=True)
def _set_onwards(
    tables: Tables,
    plan: np.ndarray,
    moves: np.ndarray,
    access: int,
    preference: int,
    until_written: bool,
    changed: np.ndarray,
    before: np.ndarray,
    count: int,
) -> int:
    """Changes the preferences of a buffer after `access` to the same; returns how many are noted then."""
    following = tables.access[access, A_NEXT]
    while following >= 0 and count < _MOST_CHANGES:
        if until_written and tables.access[following, A_KIND] != OPERAND:
            break
        if plan[following] != preference:
            count = _set(plan, following, preference, changed, before, count)
        following = tables.access[following, A_NEXT]
    return count


@njit(cache=True, nogil=True, forceinline=True)
def _other(tables: Tables, plan: np.ndarray, access: int, generator: np.random.Generator, waits: bool) -> int:
    """Returns a preference other than the one that an access has, each as likely."""
    constant = is_constant(tables, access)
    count = 3 + (1 if waits else 0) + (1 if constant else 0)
    preferences = np.array([NO_COPY, COPY, DROP, WAIT if waits else CROSS_PROGRAM_FETCH, CROSS_PROGRAM_FETCH])
    while True:
        preference = preferences[int(generator.random() * count)]
        if preference != plan[access]:
            return preference


@njit(cache=True, nogil=True)
def _restore(plan: np.ndarray, changed: np.ndarray, before: np.ndarray, count: int) -> None:
    for k in range(count - 1, -1, -1):
        plan[changed[k]] = before[k]
