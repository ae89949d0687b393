"""An annealing walk over plans: change one preference or several, play on from there, keep an improvement, or by chance
a worse game.

A game is not replayed from its beginning: states are kept at points along the current game, and a changed game starts
from the last one before the change. Nor is it always played to its end: whether it would be kept is drawn beforehand,
and it is given up once it has fallen further behind the current game, by the game's own account, than games catch up.
"""

from typing import Any

import numpy as np
from numba import types
from numpy.typing import NDArray

from ...env.compiled.kernel import kernel, routine, vector
from ...env.compiled.struct import new_record
from ...env.game.catch_up import ALWAYS_PLAYED, FIRST_PLAYED, LAGS, CatchUp, learn, new_catch_up
from ...env.game.current import (
    Checkpoints,
    Current,
    accept,
    begin_game,
    go_back,
    new_checkpoints,
    new_current,
    pass_point,
)
from ...env.game.moves import COPY
from ...env.game.plan import (
    TO_THE_END,
    WAIT,
    Plan,
    PlanGame,
    digits_of,
    plan_of_digits,
)
from ...env.game.tables import Tables
from ...env.residency.position import PlayedGame
from .task import Task
from .walk_changes import PLAIN, Drawing, Search, draw_change, new_drawing, take_back

# Games that measure the scale of a walk.
_PROBES = 60
_SETTINGS = np.dtype([(name, np.float64) for name in Search._fields])


class Walk:
    """A current plan and its game; `step` walks on.

    Attributes:
      plan_tables: the tables that plans are played on.
    """

    def __init__(self, task: Task, plan: Plan, search: Search = PLAIN) -> None:
        """Plays `plan`. The walk keeps to the tables that `task` uses now."""
        self._task, self.plan_tables = task, task.plan_tables
        self._settings = new_record(_SETTINGS, **search._asdict())
        self._kept = new_checkpoints(task.plan_game)
        self._drawing = new_drawing(task.tables, task.free, search.uniform)
        self._catch_up = new_catch_up()
        self._current = new_current(plan)
        self._deltas = np.zeros(_PROBES)
        self._current.seconds[:] = self._play()
        task.evaluations += 1
        task.offer(self.plan, self.current_s)

    def _play(self) -> float:
        return begin_game(self._task.plan_game, self._kept, self._current)

    @property
    def played(self) -> PlayedGame:
        """The current game, to be shared with a position: whichever makes a change, both go on from there."""
        return PlayedGame(self._kept, self._current, self._catch_up)

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
        return {
            "plan": digits_of(self.plan),
            "best_plan": digits_of(self.best_plan),
            "best_s": self.best_s,
            "regained": self._catch_up.regained.tolist(),
            "sure": int(self._catch_up.played[0]),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restores what `state` returned."""
        self.plan[:] = plan_of_digits(state["plan"])
        self._current.seconds[0] = self._play()
        self.best_plan[:] = plan_of_digits(state["best_plan"])
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

    @property
    def scale(self) -> float:
        """The unit of temperatures in seconds: the median difference, without zeros, that a single change makes. It is
        measured anew, by games."""
        differences = self.differences()
        return float(np.median(differences)) if len(differences) else 1e-4 * self.current_s

    def _run(self, games: int, temperature: float, probe: bool) -> None:
        task = self._task
        task.use(self.plan_tables)
        _steps(
            task.plan_game,
            self._kept,
            self._current,
            self._drawing,
            self._catch_up,
            self._settings,
            task.generator,
            games,
            temperature,
            probe,
            self._deltas,
        )
        task.evaluations += games
        task.offer(self.best_plan, self.best_s)


@kernel(
    PlanGame, Checkpoints, Current, Drawing, CatchUp, _SETTINGS, types.npy_rng, int, float, bool, vector(np.float64)
)
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
    tables, state = game.tables, game.state
    points, rewards = kept.points, kept.rewards
    plan, moves, trial_moves, seconds = current.plan, current.moves, current.trial_moves, current.seconds
    behind = drawing.behind
    for number in range(games):
        count = draw_change(tables, drawing, plan, moves, generator, search, probe)
        first, last = drawing.changed[0], drawing.changed[0]
        for k in range(count):
            first, last = min(first, drawing.changed[k]), max(last, drawing.changed[k])
        # Draw now how much worse the game may be and still be kept.
        allowed = 0.0
        if temperature > 0.0 and not probe:
            allowed = -temperature * np.log(max(generator.random(), 1e-300))
        to_the_end = probe or not search.gives_up
        if not to_the_end:
            to_the_end = limits.played[0] < FIRST_PLAYED or generator.random() < ALWAYS_PLAYED
        point = go_back(game, kept, first)
        passed = point + 1
        lag = 0
        compared, same, over, given_up = False, False, False, False
        while not over and not given_up:
            until = points[passed] if passed < len(points) else TO_THE_END
            if not compared:
                until = min(until, last + 1)
            access = game.play_until(tables, state, game.options, plan, trial_moves, until)
            if not compared and access > last:
                compared = True
                same = _is_same(tables, drawing, plan, moves, trial_moves, first, last, count)
                if same:
                    break  # the preferences differ, the moves do not
            while passed < len(points) and access >= points[passed]:
                pass_point(game, kept, passed, first)
                if points[passed] > last and lag < LAGS:
                    behind[lag] = rewards[0, passed] - state.now.reward
                    given_up = given_up or (not to_the_end and behind[lag] > allowed + limits.regained[0, lag])
                    lag += 1
                passed += 1
            over = until == TO_THE_END
        if same:
            if probe:
                deltas[number] = 0.0
                take_back(drawing, plan, count)
            continue  # the new preferences cost nothing: keep them
        if given_up:
            take_back(drawing, plan, count)
            continue
        judged = game.judge(tables, game.scoring, state)
        worse = judged - seconds[0]
        if probe:
            deltas[number] = worse
            take_back(drawing, plan, count)
            continue
        if to_the_end and search.gives_up:
            limits.played[0] += 1
            learn(limits.regained, behind, lag, worse, limits.played[0])
        if worse <= allowed:
            accept(kept, current, point, first, judged)
        else:
            take_back(drawing, plan, count)


@routine
def _is_same(
    tables: Tables,
    drawing: Drawing,
    plan: np.ndarray,
    moves: np.ndarray,
    trial_moves: np.ndarray,
    first: int,
    last: int,
    count: int,
) -> bool:
    """Returns whether the changed game is the current one still after the changes, which begin at `first` and end at
    `last`."""
    access = tables.following[first]
    while access <= last:
        if trial_moves[access] != moves[access]:
            return False
        access = tables.following[access + 1]
    same = True
    for k in range(count):
        same = same and not _waits_otherwise(tables, drawing, plan, moves, k)
    return same


@routine
def _waits_otherwise(tables: Tables, drawing: Drawing, plan: np.ndarray, moves: np.ndarray, k: int) -> bool:
    """Returns whether the same move may run another prefetch than before change `k`: one that stalls too long at its
    hinted time takes another window, unless the preference is `WAIT`."""
    access = drawing.changed[k]
    row = tables.access[access]
    if moves[access] != COPY or row.hint < 0 or row.since >= row.due:
        return False
    return (drawing.before[k] == WAIT) != (plan[access] == WAIT)
