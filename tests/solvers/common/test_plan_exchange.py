"""Plans of several processes: only better ones are shown, whole, the best first, and nobody waits."""

from pathlib import Path

import numpy as np

from mallocmuzero.solvers.common.plan_exchange import PlanExchange


def plan(preference: int) -> np.ndarray:
    return np.full(5, preference, np.int8)


def preferences(exchange: PlanExchange) -> list[int]:
    shown = exchange.plans()
    assert all(each.dtype == np.int8 and each.shape == (5,) for each in shown)
    return [int(each[0]) for each in shown]


def test_the_best_of_each_other_is_seen_in_order(tmp_path: Path) -> None:
    first, second, third = (PlanExchange(tmp_path, number, 3) for number in range(3))
    assert preferences(first) == []
    second.offer(plan(2), 4.0)
    assert preferences(first) == [2], "the third has shown nothing yet"
    third.offer(plan(1), 3.0)
    assert preferences(first) == [1, 2]
    assert preferences(second) == [1]
    second.offer(plan(0), 2.0)
    assert preferences(first) == [0, 1]


def test_what_is_no_better_is_not_shown(tmp_path: Path) -> None:
    first, second = (PlanExchange(tmp_path, number, 2) for number in range(2))
    first.offer(plan(1), 3.0)
    first.offer(plan(2), 3.0)
    first.offer(plan(0), float("inf"))
    assert preferences(second) == [1]
    assert [path.name for path in tmp_path.iterdir()] == ["plan-0.npz"], "nothing unfinished is left"
