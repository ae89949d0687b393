"""Simulated annealing over plans: change a wish or a few, play on from there, keep it if it is better or by chance.

A game is not played again from its beginning: states are kept at points along the current game, and a change starts
from the last one before it. The temperature falls geometrically; its scale comes from the differences that single
changes make.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ...env.core import catch_up, play, reset
from ...env.layout import A_BUFFER, A_NEXT, C_ACCESS, State, Tables
from .outcome import Scoring, outcome
from .plan import choose, num_wishes
from .starts import good_starts
from .task import Plan, Task

# States kept along a game.
_POINTS = 12
# Share of the budget that looking for a start may take.
_START_SHARE = 0.15
# Temperatures, in units of the median difference that a single change makes.
_HOT, _COLD = 0.3, 0.01
_PROBES = 60
# Changes: a wish; a wish and one near it; all wishes of a buffer from there on.
_SINGLE, _PAIR = 0.5, 0.75
_NEAR = 40
_MOST_CHANGES = 64


class Walk:
    """A current plan and its game; `step` walks on."""

    def __init__(self, task: Task, plan: Plan) -> None:
        """Plays `plan`."""
        self._task = task
        accesses = len(task.tables.access)
        self._points = np.unique(np.linspace(0, accesses, _POINTS, endpoint=False).astype(np.int64))
        self._bank = np.zeros((2, len(self._points), len(task.block)), np.uint8)
        self._slot = np.zeros(len(self._points), np.int64)
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
        plan, best_plan = ("".join(map(str, wishes.tolist())) for wishes in (self.plan, self.best_plan))
        return {"plan": plan, "best_plan": best_plan, "best_s": self.best_s}

    def restore(self, state: dict[str, Any]) -> None:
        """Goes to where `state` says."""
        self.plan[:] = np.array(list(state["plan"]), np.int8)
        self._slot[:] = 0
        self._values[0] = self._play()
        self.best_plan[:] = np.array(list(state["best_plan"]), np.int8)
        self._values[1] = float(state["best_s"])

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
        task = self._task
        _steps(
            task.tables,
            task.scoring,
            task.state,
            task.block,
            self._bank,
            self._slot,
            self._points,
            task.legal,
            task.following,
            task.free,
            self.plan,
            self.best_plan,
            self._moves,
            self._trial_moves,
            self._values,
            self._deltas,
            task.generator,
            temperature,
            games,
            probe,
        )
        task.evaluations += games
        task.offer(self.best_plan, float(self._values[1]))


def anneal(task: Task) -> None:
    """Anneals from the best of the greedy lines, then, colder, from the best found, until the budget is spent."""
    task.doing = "starts"
    starts = good_starts(task, _START_SHARE)
    if task.done or not len(task.free):
        return
    walk = Walk(task, starts[0])
    scale = _scale(walk, task)
    begin, hot = task.spent, _HOT
    for end in (begin + 0.7 * (1.0 - begin), 1.0):
        while not task.done and task.spent < end:
            passed = (task.spent - begin) / (end - begin)
            temperature = scale * hot * (_COLD / hot) ** passed
            task.doing = f"temperature {temperature * 1e6:.3g} us"
            walk.step(task.games_per_look(), temperature)
        if task.done or task.best_plan is None:
            return
        walk = Walk(task, task.best_plan)
        begin, hot = task.spent, _HOT / 5


def _scale(walk: Walk, task: Task) -> float:
    differences = walk.differences()
    return float(np.median(differences)) if len(differences) else 1e-4 * walk.current_s


@njit(cache=True, nogil=True)
def _begin(
    tables: Tables,
    scoring: Scoring,
    state: State,
    block: np.ndarray,
    bank: np.ndarray,
    points: np.ndarray,
    legal: np.ndarray,
    following: np.ndarray,
    plan: np.ndarray,
    moves: np.ndarray,
) -> float:
    """Plays `plan` from the beginning and keeps its states in `bank[0]`; returns its seconds."""
    reset(tables, state)
    point = 0
    while True:
        state.counters[C_ACCESS] = following[state.counters[C_ACCESS]]
        access = state.counters[C_ACCESS]
        while point < len(points) and access >= points[point]:
            bank[0, point] = block
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
    slot: np.ndarray,
    points: np.ndarray,
    legal: np.ndarray,
    following: np.ndarray,
    free: np.ndarray,
    plan: np.ndarray,
    best_plan: np.ndarray,
    moves: np.ndarray,
    trial_moves: np.ndarray,
    values: np.ndarray,
    deltas: np.ndarray,
    generator: np.random.Generator,
    temperature: float,
    games: int,
    probe: bool,
) -> None:
    """Tries `games` changes. With `probe` they are single ones, none is kept, and `deltas` gets what they make."""
    changed = np.zeros(_MOST_CHANGES, np.int64)
    before = np.zeros(_MOST_CHANGES, np.int8)
    for game in range(games):
        count = _change(tables, free, plan, generator, changed, before, probe)
        first, last = changed[0], changed[0]
        for k in range(count):
            first, last = min(first, changed[k]), max(last, changed[k])
        point = np.searchsorted(points, first, side="right") - 1
        block[:] = bank[slot[point], point]
        passed = point + 1
        same, over = True, False
        while not over:
            state.counters[C_ACCESS] = following[state.counters[C_ACCESS]]
            access = state.counters[C_ACCESS]
            if same and access > last:
                break  # the wishes were different, the moves are not
            while passed < len(points) and access >= points[passed]:
                bank[1 - slot[passed], passed] = block
                passed += 1
            over = not catch_up(tables, state)
            if not over:
                move = choose(tables, state, legal, plan[access])
                same = same and (access < first or move == moves[access])
                trial_moves[access] = move
                play(tables, state, move)
        if same:
            if probe:
                deltas[game] = 0.0
                _restore(plan, changed, before, count)
            continue  # the new wishes cost nothing: keep them
        seconds = outcome(tables, scoring, state)
        worse = seconds - values[0]
        if probe:
            deltas[game] = worse
            _restore(plan, changed, before, count)
            continue
        if worse <= 0.0 or (temperature > 0.0 and generator.random() < np.exp(-worse / temperature)):
            values[0] = seconds
            moves[points[point] :] = trial_moves[points[point] :]
            for k in range(point + 1, len(points)):
                slot[k] = 1 - slot[k]
            if seconds < values[1]:
                values[1] = seconds
                best_plan[:] = plan
        else:
            _restore(plan, changed, before, count)


@njit(cache=True, nogil=True)
def _change(
    tables: Tables,
    free: np.ndarray,
    plan: np.ndarray,
    generator: np.random.Generator,
    changed: np.ndarray,
    before: np.ndarray,
    single: bool,
) -> int:
    """Changes a wish or several in place; returns how many, with places and former wishes."""
    index = int(generator.random() * len(free))
    kind = 0.0 if single else generator.random()
    changed[0] = free[index]
    before[0] = plan[changed[0]]
    wish = _other(tables, plan, changed[0], generator)
    plan[changed[0]] = wish
    count = 1
    if kind < _SINGLE:
        return count
    if kind < _PAIR:
        near = index + int(generator.random() * (2 * _NEAR + 1)) - _NEAR
        near = min(max(near, 0), len(free) - 1)
        if near != index:
            changed[1] = free[near]
            before[1] = plan[free[near]]
            plan[free[near]] = _other(tables, plan, free[near], generator)
            count = 2
        return count
    access = tables.access[changed[0], A_NEXT]
    while access >= 0 and count < _MOST_CHANGES:
        if plan[access] != wish and tables.access[access, A_BUFFER] == tables.access[changed[0], A_BUFFER]:
            changed[count] = access
            before[count] = plan[access]
            plan[access] = wish
            count += 1
        access = tables.access[access, A_NEXT]
    return count


@njit(cache=True, nogil=True)
def _other(tables: Tables, plan: np.ndarray, access: int, generator: np.random.Generator) -> int:
    """Returns a wish other than the one that an access has, each as likely."""
    count = num_wishes(tables, access)
    return (plan[access] + 1 + int(generator.random() * (count - 1))) % count


@njit(cache=True, nogil=True)
def _restore(plan: np.ndarray, changed: np.ndarray, before: np.ndarray, count: int) -> None:
    for k in range(count):
        plan[changed[k]] = before[k]
