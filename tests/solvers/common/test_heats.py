"""Heats: a long budget is divided, what they find reaches the task, and the progress is that of the whole."""

from pathlib import Path

import numpy as np
import pytest
from guided_cases import make_task

from mallocmuzero.env.workloads import load
from mallocmuzero.solvers.common.budget import CLOCKS, WALL, Budget, Status
from mallocmuzero.solvers.common.exchange import Exchange
from mallocmuzero.solvers.common.heats import in_heats
from mallocmuzero.solvers.common.task import Task
from mallocmuzero.solvers.common.walk import Walk

PROGRAM = "alexnet-train-b128"
# Every look at the clock takes so long.
TICK_S = 0.01


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter(range(10**9))
    monkeypatch.setitem(CLOCKS, WALL, lambda: TICK_S * next(looks))


def play_at_random(task: Task) -> None:
    while not task.done:
        task.play(task.generator.integers(0, 3, len(task.tables.access)).astype(np.int8))


def run(
    seconds: float, exchange: Exchange | None = None, progress: list[Status] | None = None
) -> tuple[Task, list[Task]]:
    task = Task(
        load(PROGRAM),
        None,
        None,
        Budget(seconds),
        0,
        None if progress is None else progress.append,
        exchange=exchange,
    )
    heats: list[Task] = []

    def solver(heat: Task) -> None:
        heats.append(heat)
        play_at_random(heat)

    in_heats(task, solver, lambda plan: Walk(task, plan), 0.01)
    return task, heats


def test_a_short_budget_is_one_heat_of_the_task_itself() -> None:
    task, heats = run(15.0)
    assert heats == [task]


@pytest.mark.parametrize(("seconds", "count"), [(30.0, 3), (60.0, 6), (600.0, 6)])
def test_a_long_budget_is_divided_evenly(seconds: float, count: int) -> None:
    task, heats = run(seconds)
    assert len(heats) == count
    budgets = [heat.budget.seconds for heat in heats]
    assert max(budgets) < 1.2 * min(budgets)
    assert 0.9 * seconds < sum(budgets) < seconds
    assert seconds <= task.seconds < 1.05 * seconds, "no time is left"


def test_heats_differ_and_the_best_of_all_stays_with_the_task() -> None:
    task, heats = run(40.0)
    found = [heat.best_s for heat in heats]
    assert len(set(found)) == len(found)
    assert task.best_s <= min(found)
    assert task.evaluations > sum(heat.evaluations for heat in heats)
    assert task.mapping() is not None


def test_plans_of_all_heats_are_crossed() -> None:
    task, heats = run(40.0)
    assert task.best_s < min(heat.best_s for heat in heats), "random plans have parts to take from each other"


def test_other_processes_see_what_heats_find_and_help_in_the_end(tmp_path: Path) -> None:
    alone, _ = run(40.0)
    plan = alone.best_plan
    assert plan is not None
    mine, other = (Exchange(tmp_path, number, 2) for number in range(2))
    other.offer(alone.best_s, plan=plan)
    task, heats = run(20.0, mine)
    assert len(heats) == 2
    assert all(heat.exchange is None for heat in heats)
    assert task.best_s < min(heat.best_s for heat in heats)
    ((seconds, shown),) = other.finds()
    assert seconds == min(heat.best_s for heat in heats)
    assert make_task(1, PROGRAM).play(shown["plan"]) == seconds


def test_a_budget_of_games_alone_is_one_heat() -> None:
    task = Task(load(PROGRAM), None, None, Budget(None, 50), 0)
    heats: list[Task] = []
    in_heats(task, heats.append, lambda plan: Walk(task, plan), 0.01)
    assert heats == [task]


def test_the_progress_is_that_of_the_whole() -> None:
    shown: list[Status] = []
    run(40.0, progress=shown)
    seconds = [status.seconds for status in shown]
    assert seconds == sorted(seconds)
    games = [status.evaluations for status in shown]
    assert games == sorted(games)
    best = [status.best_s for status in shown]
    assert best == sorted(best, reverse=True)
    assert any(status.doing.startswith("heat 2 of 4") for status in shown)
