"""A race of walks: some leave, the best is what the task keeps, equal seeds repeat, and the budget holds."""

from pathlib import Path

import pytest
from guided_cases import make_task, plan_of

from mallocmuzero.env.game.moves import COPY, DROP
from mallocmuzero.env.game.plan import Plan
from mallocmuzero.solvers.anneal import SEARCH
from mallocmuzero.solvers.common.exchange import Exchange
from mallocmuzero.solvers.common.race import Cooling, race
from mallocmuzero.solvers.common.task import Task
from mallocmuzero.solvers.common.walk import Walk

PROGRAM = "alexnet-train-b128"


class Counted(Walk):
    """A walk that counts its games."""

    def __init__(self, task: Task, plan: Plan) -> None:
        super().__init__(task, plan, SEARCH)
        self.games = 0

    def step(self, games: int, temperature: float) -> None:
        self.games += games
        super().step(games, temperature)


def raced(games: int, walks: int, exchange: Exchange | None = None) -> tuple[Task, list[Counted]]:
    task, begun = make_task(games, PROGRAM), []
    task.exchange = exchange

    def begin(plan: Plan) -> Counted:
        begun.append(Counted(task, plan))
        return begun[-1]

    starts = [(plan_of(task, move), task.plan_tables) for move in (COPY, DROP)]
    for plan, _ in starts:
        task.play(plan)
    race(task, starts, begin, Cooling(0.1, 0.01, walks, 60.0))
    return task, begun


def test_walks_leave_and_the_best_stays_with_the_task() -> None:
    task, begun = raced(6000, 4)
    assert task.done
    assert len(begun) >= 4
    games = [walk.games for walk in begun[:4]]
    assert min(games) > 0
    assert max(games) > 1.5 * min(games), "those that leave early play less"
    assert task.best_s == min(walk.best_s for walk in begun)
    assert task.best_s < begun[0].current_s or task.best_s == begun[0].best_s


def test_a_small_budget_begins_fewer_walks() -> None:
    _, begun = raced(150, 4)
    assert len(begun) <= 3


@pytest.mark.parametrize("games", [0, 1, 40, 700])
def test_any_budget_ends(games: int) -> None:
    task, _ = raced(games, 4)
    assert task.done


def test_equal_seeds_repeat() -> None:
    one, other = (raced(3000, 4)[0] for _ in range(2))
    assert one.best_s == other.best_s
    assert one.evaluations == other.evaluations


def test_what_another_process_has_found_is_taken_over_and_what_is_found_is_shown(tmp_path: Path) -> None:
    alone, _ = raced(300, 2)
    found, _ = raced(12000, 4)
    assert found.best_plan is not None
    assert found.best_s < alone.best_s
    mine, other = (Exchange(tmp_path, number, 2) for number in range(2))
    other.offer(found.best_s, plan=found.best_plan)
    together, _ = raced(300, 2, mine)
    assert together.best_s < alone.best_s
    ((_, shown),) = other.finds()
    assert make_task(1, PROGRAM).play(shown["plan"]) >= together.best_s
