"""An annealing walk over plans: change one preference or several, play on from there, keep an improvement, or by chance
a worse game.

A game is not replayed from its beginning: states are kept at points along the current game, and a changed game starts
from the last one before the change. Nor is it always played to its end: whether it would be kept is drawn beforehand,
and it is given up once it has fallen further behind the current game, by the game's own account, than games catch up.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ...env.compiled.block import copy_block
from ...env.compiled.sorting import first_above
from ...env.compiled.unowned import unowned
from ...env.game.columns import (
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
)
from ...env.game.instructions import catch_up
from ...env.game.moves import COPY, DROP, NO_COPY
from ...env.game.outcome import outcome
from ...env.game.play import play
from ...env.game.rules import reset
from ...env.game.tables import Tables
from ...env.program.program import OPERAND
from .plan import CROSS_PROGRAM_FETCH, WAIT, Plan, PlanGame, choose, is_constant
from .task import Task

# States kept along a game.
_CHECKPOINTS = 24
_PROBES = 60
_NEAR = 40
_MAX_CHANGES = 64
# Share of games that are played to their end in any case, and of games given up that would have been kept.
_ALWAYS_PLAYED, _GIVEN_UP_WRONGLY = 0.1, 0.05
_FIRST_PLAYED = 40
_LAGS = 6


class Search(NamedTuple):
    """Settings of a walk.

    Attributes:
      waits: `WAIT` is among the preferences drawn.
      gives_up: games that fall behind are not played to their end.
      uniform: share of changes that begin at any access alike; the others favour accesses with more at stake.
      single, pair, forward: shares of changes of one preference, of two near each other, and of all later preferences
        of a buffer; the rest swaps two buffers near each other.
    """

    waits: bool = False
    gives_up: bool = False
    uniform: float = 1.0
    single: float = 0.5
    pair: float = 0.25
    forward: float = 0.25


PLAIN = Search()


class Checkpoints(NamedTuple):
    """States kept along the current game and along a changed one. Shapes: `P` points, `B` bytes of a state.

    Attributes:
      points: `[P]` the accesses before which a state is kept, ascending.
      bank: `[2, P, B]` the states.
      rewards: `[2, P]` rewards until then, in weighted seconds saved.
      slot: `[P]` which of the two belongs to the current game; a changed game writes to the other.
    """

    points: NDArray[np.int64]
    bank: NDArray[np.uint8]
    rewards: NDArray[np.float64]
    slot: NDArray[np.int64]


class Current(NamedTuple):
    """The current game of a walk, its best one, and the changed one. Shapes: `A` accesses.

    Attributes:
      plan, moves: `[A]` the plan and the moves of the current game.
      best_plan: `[A]`.
      trial_moves: `[A]` the moves of the changed game.
      seconds: `[2]` judged seconds of the current and of the best game.
    """

    plan: Plan
    moves: NDArray[np.int8]
    best_plan: Plan
    trial_moves: NDArray[np.int8]
    seconds: NDArray[np.float64]


class Drawing(NamedTuple):
    """The distribution of changes. Shapes: `F` free accesses.

    Attributes:
      free: `[F]` the accesses that a plan decides.
      cumulative: `[F]` cumulative probabilities of beginning a change there.
      changed, before: `[_MAX_CHANGES]` accesses of the last change, and their preferences before.
    """

    free: NDArray[np.int64]
    cumulative: NDArray[np.float64]
    changed: NDArray[np.int64]
    before: NDArray[np.int8]


class CatchUp(NamedTuple):
    """Learned limits for giving games up.

    Attributes:
      regained: `[2, _LAGS]` by the number of points since the change: the quantile of the seconds that a game makes up
        for after it, and their mean size.
      played: `[1]` games that were played to their end to learn it.
    """

    regained: NDArray[np.float64]
    played: NDArray[np.int64]


class Walk:
    """A current plan and its game; `step` walks on."""

    def __init__(self, task: Task, plan: Plan, search: Search = PLAIN) -> None:
        """Plays `plan`. The walk keeps to the tables that `task` uses now."""
        self._task, self._search, self._plan_tables = task, search, task.plan_tables
        accesses = len(task.tables.access)
        points = np.unique(np.linspace(0, accesses, _CHECKPOINTS, endpoint=False).astype(np.int64))
        self._kept = Checkpoints(
            points,
            np.zeros((2, len(points), len(task.block)), np.uint8),
            np.zeros((2, len(points))),
            np.zeros(len(points), np.int64),
        )
        self._drawing = Drawing(
            task.free,
            _cumulative(task.tables, task.free, search.uniform),
            np.zeros(_MAX_CHANGES, np.int64),
            np.zeros(_MAX_CHANGES, np.int8),
        )
        self._catch_up = CatchUp(np.zeros((2, _LAGS)), np.zeros(1, np.int64))
        moves, trial_moves = np.zeros(accesses, np.int8), np.zeros(accesses, np.int8)
        self._current = Current(plan.copy(), moves, plan.copy(), trial_moves, np.zeros(2))
        self._deltas = np.zeros(_PROBES)
        self._current.seconds[:] = self._play()
        task.evaluations += 1
        task.offer(self.plan, self.current_s)

    def _play(self) -> float:
        return _begin(self._task.plan_game, self._kept, self.plan, self._current.moves)

    @property
    def plan(self) -> Plan:
        """`[A]` the plan of the current game."""
        return self._current.plan

    @property
    def best_plan(self) -> Plan:
        """`[A]` the plan of the best game."""
        return self._current.best_plan

    @property
    def current_s(self) -> float:
        """Judged seconds of the current game."""
        return float(self._current.seconds[0])

    @property
    def best_s(self) -> float:
        """Judged seconds of the best game, that of `best_plan`."""
        return float(self._current.seconds[1])

    def state(self) -> dict[str, Any]:
        """Returns the state of the walk as plain JSON values; `restore` goes on from there, with the same generator."""
        plan, best_plan = ("".join(map(str, preferences.tolist())) for preferences in (self.plan, self.best_plan))
        return {
            "plan": plan,
            "best_plan": best_plan,
            "best_s": self.best_s,
            "regained": self._catch_up.regained.tolist(),
            "sure": int(self._catch_up.played[0]),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restores what `state` returned."""
        self.plan[:] = np.array(list(state["plan"]), np.int8)
        self._kept.slot[:] = 0
        self._current.seconds[0] = self._play()
        self.best_plan[:] = np.array(list(state["best_plan"]), np.int8)
        self._current.seconds[1] = float(state["best_s"])
        self._catch_up.regained[:] = state.get("regained", 0.0)
        self._catch_up.played[0] = state.get("sure", 0)

    def step(self, games: int, temperature: float) -> None:
        """Plays `games` changed games at a temperature in seconds; at 0 only improvements are kept."""
        self._run(games, temperature, False)

    def differences(self) -> NDArray[np.float64]:
        """Returns the differences, in seconds, that single changes make to the current game; zeros are left out."""
        games = min(_PROBES, self._task.games_per_look())
        self._deltas[:] = 0.0
        self._run(games, 0.0, True)
        found = np.abs(self._deltas[np.isfinite(self._deltas)])
        return found[found > 0.0]

    def _run(self, games: int, temperature: float, probe: bool) -> None:
        task = self._task
        task.use(self._plan_tables)
        _steps(
            task.plan_game,
            self._kept,
            self._current,
            self._drawing,
            self._catch_up,
            self._search,
            task.generator,
            games,
            temperature,
            probe,
            self._deltas,
        )
        task.evaluations += games
        task.offer(self.best_plan, self.best_s)


def _cumulative(tables: Tables, free: NDArray[np.int64], uniform: float) -> NDArray[np.float64]:
    """Returns `[F]` cumulative probabilities of the free accesses to begin a change at.

    At stake is the benefit of an operand; for a result half of its benefits ahead.
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
def _begin(game: PlanGame, kept: Checkpoints, plan: np.ndarray, moves: np.ndarray) -> float:
    """Plays `plan` from the beginning and keeps its states in `bank[0]`; returns its judged seconds."""
    tables, state, kept = unowned(game.tables), unowned(game.state), unowned(kept)
    reset(tables, state)
    point = 0
    while True:
        state.counters[C_ACCESS] = game.following[state.counters[C_ACCESS]]
        access = state.counters[C_ACCESS]
        while point < len(kept.points) and access >= kept.points[point]:
            copy_block(game.block, kept.bank[0, point])
            kept.rewards[0, point] = state.sums[F_REWARD]
            point += 1
        if not catch_up(tables, state):
            return outcome(tables, game.scoring, state)
        moves[access] = choose(tables, state, game.options, plan[access])
        play(tables, state, game.options, moves[access])


@njit(cache=True, nogil=True)
def _steps(
    game: PlanGame,
    kept: Checkpoints,
    current: Current,
    drawing: Drawing,
    limits: CatchUp,
    search: Search,
    generator: np.random.Generator,
    games: int,
    temperature: float,
    probe: bool,
    deltas: np.ndarray,
) -> None:
    """Tries `games` changes. With `probe` they are single, none is kept, and `deltas` receives their differences."""
    tables, state, options = unowned(game.tables), unowned(game.state), game.options
    kept, current, drawing, limits = unowned(kept), unowned(current), unowned(drawing), unowned(limits)
    block, following = game.block, game.following
    points, bank, rewards, slot = kept.points, kept.bank, kept.rewards, kept.slot
    plan, moves, trial_moves, seconds = current.plan, current.moves, current.trial_moves, current.seconds
    changed, before = drawing.changed, drawing.before
    behind = np.zeros(_LAGS)
    for number in range(games):
        count = _change(tables, drawing, plan, moves, generator, search, probe)
        first, last = changed[0], changed[0]
        for k in range(count):
            first, last = min(first, changed[k]), max(last, changed[k])
        # Draw now how much worse the game may be and still be kept.
        allowed = 0.0
        if temperature > 0.0 and not probe:
            allowed = -temperature * np.log(max(generator.random(), 1e-300))
        to_the_end = probe or not search.gives_up
        if not to_the_end:
            to_the_end = limits.played[0] < _FIRST_PLAYED or generator.random() < _ALWAYS_PLAYED
        point = first_above(points, first) - 1
        copy_block(bank[slot[point], point], block)
        passed = point + 1
        lag = 0
        same, over, given_up = True, False, False
        while not over and not given_up:
            state.counters[C_ACCESS] = following[state.counters[C_ACCESS]]
            access = state.counters[C_ACCESS]
            if same and access > last:
                break  # the preferences differ, the moves do not
            while passed < len(points) and access >= points[passed]:
                copy_block(block, bank[1 - slot[passed], passed])
                rewards[1 - slot[passed], passed] = state.sums[F_REWARD]
                if points[passed] > last and lag < _LAGS:
                    behind[lag] = rewards[slot[passed], passed] - state.sums[F_REWARD]
                    given_up = given_up or (not to_the_end and behind[lag] > allowed + limits.regained[0, lag])
                    lag += 1
                passed += 1
            over = not catch_up(tables, state)
            if not over:
                move = choose(tables, state, options, plan[access])
                same = same and (access < first or move == moves[access])
                same = same and not _waits_otherwise(tables, plan, access, move, changed, before, count)
                trial_moves[access] = move
                play(tables, state, options, move)
        if same:
            if probe:
                deltas[number] = 0.0
                _restore(plan, changed, before, count)
            continue  # the new preferences cost nothing: keep them
        if given_up:
            _restore(plan, changed, before, count)
            continue
        judged = outcome(tables, game.scoring, state)
        worse = judged - seconds[0]
        if probe:
            deltas[number] = worse
            _restore(plan, changed, before, count)
            continue
        if to_the_end and search.gives_up:
            limits.played[0] += 1
            _learn(limits.regained, behind, lag, worse, limits.played[0])
        if worse <= allowed:
            seconds[0] = judged
            copy_block(trial_moves[points[point] :], moves[points[point] :])
            for k in range(point + 1, len(points)):
                slot[k] = 1 - slot[k]
            if judged < seconds[1]:
                seconds[1] = judged
                copy_block(plan, current.best_plan)
        else:
            _restore(plan, changed, before, count)


@njit(cache=True, nogil=True, forceinline=True)
def _waits_otherwise(
    tables: Tables, plan: np.ndarray, access: int, move: int, changed: np.ndarray, before: np.ndarray, count: int
) -> bool:
    """Returns whether the same move may run another prefetch than before: one that stalls too long at its hinted time
    takes another window, unless the preference is `WAIT`."""
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
    """Moves the quantiles of the seconds that a game makes up for towards those of this game."""
    for lag in range(lags):
        gain = behind[lag] - worse
        regained[1, lag] += (abs(gain) - regained[1, lag]) * max(0.02, 1.0 / games)
        step = 0.5 * regained[1, lag]
        regained[0, lag] += step * (1.0 - _GIVEN_UP_WRONGLY) if gain > regained[0, lag] else -step * _GIVEN_UP_WRONGLY
        regained[0, lag] = max(regained[0, lag], 0.0)


@njit(cache=True, nogil=True, forceinline=True)
def _change(
    tables: Tables,
    drawing: Drawing,
    plan: np.ndarray,
    moves: np.ndarray,
    generator: np.random.Generator,
    search: Search,
    single: bool,
) -> int:
    """Changes one preference or several in place, and notes them in `drawing`; returns how many."""
    free, changed, before = drawing.free, drawing.changed, drawing.before
    index = int(first_above(drawing.cumulative, generator.random()))
    index = min(index, len(free) - 1)
    kind = 0.0 if single else generator.random()
    access = free[index]
    if kind < search.single + search.pair + search.forward:
        preference = _other(tables, plan, access, generator, search.waits)
        count = _set(plan, access, preference, changed, before, 0)
        if kind < search.single:
            return count
        if kind >= search.single + search.pair:
            return _set_onwards(tables, plan, access, preference, False, changed, before, count)
        near = _near(free, index, generator)
        if near != access:
            count = _set(plan, near, _other(tables, plan, near, generator, search.waits), changed, before, count)
        return count
    # A swap: one buffer leaves fast memory, another enters, each until it is written again.
    enters = moves[access] == DROP
    fast = WAIT if search.waits and generator.random() < 0.25 else (COPY if generator.random() < 0.5 else NO_COPY)
    count = _set(plan, access, fast if enters else DROP, changed, before, 0)
    count = _set_onwards(tables, plan, access, fast if enters else DROP, True, changed, before, count)
    for _ in range(4):
        near = _near(free, index, generator)
        if tables.access[near, A_BUFFER] != tables.access[access, A_BUFFER] and (moves[near] == DROP) != enters:
            count = _set(plan, near, DROP if enters else fast, changed, before, count)
            return _set_onwards(tables, plan, near, DROP if enters else fast, True, changed, before, count)
    return count


@njit(cache=True, nogil=True)
def _near(free: np.ndarray, index: int, generator: np.random.Generator) -> int:
    near = index + int(generator.random() * (2 * _NEAR + 1)) - _NEAR
    return free[min(max(near, 0), len(free) - 1)]


@njit(cache=True, nogil=True)
def _set(plan: np.ndarray, access: int, preference: int, changed: np.ndarray, before: np.ndarray, count: int) -> int:
    """Changes a preference and notes the old one; returns how many are noted."""
    if count == _MAX_CHANGES:
        return count
    changed[count] = access
    before[count] = plan[access]
    plan[access] = preference
    return count + 1


@njit(cache=True, nogil=True, forceinline=True)
def _set_onwards(
    tables: Tables,
    plan: np.ndarray,
    access: int,
    preference: int,
    until_written: bool,
    changed: np.ndarray,
    before: np.ndarray,
    count: int,
) -> int:
    """Changes the preferences of a buffer after `access` to the same one; returns how many are noted."""
    following = tables.access[access, A_NEXT]
    while following >= 0 and count < _MAX_CHANGES:
        if until_written and tables.access[following, A_KIND] != OPERAND:
            break
        if plan[following] != preference:
            count = _set(plan, following, preference, changed, before, count)
        following = tables.access[following, A_NEXT]
    return count


@njit(cache=True, nogil=True, forceinline=True)
def _other(tables: Tables, plan: np.ndarray, access: int, generator: np.random.Generator, waits: bool) -> int:
    """Returns a preference other than the present one of an access, all equally likely."""
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
