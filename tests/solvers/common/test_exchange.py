"""Finds of several processes: only better ones are shown, whole, the best first, and nobody waits."""

from pathlib import Path

import numpy as np

from mallocmuzero.solvers.common.exchange import Exchange


def plan(preference: int) -> np.ndarray:
    return np.full(5, preference, np.int8)


def seen(exchange: Exchange) -> list[tuple[float, int]]:
    finds = exchange.finds()
    assert all(find["plan"].dtype == np.int8 and find["plan"].shape == (5,) for _, find in finds)
    return [(seconds, int(find["plan"][0])) for seconds, find in finds]


def test_the_best_of_each_other_is_seen_in_order(tmp_path: Path) -> None:
    first, second, third = (Exchange(tmp_path, number, 3) for number in range(3))
    assert seen(first) == []
    second.offer(4.0, plan=plan(2))
    assert seen(first) == [(4.0, 2)], "the third has shown nothing yet"
    third.offer(3.0, plan=plan(1))
    assert seen(first) == [(3.0, 1), (4.0, 2)]
    assert seen(second) == [(3.0, 1)]
    second.offer(2.0, plan=plan(0))
    assert seen(first) == [(2.0, 0), (3.0, 1)]


def test_work_is_divided_without_a_word(tmp_path: Path) -> None:
    turns = np.array([Exchange(tmp_path, number, 3).turns() for number in range(3)])
    assert (turns.sum(0) == 1).all()
    assert (turns.sum(1) == 1).all()


def test_what_is_no_better_is_not_shown(tmp_path: Path) -> None:
    first, second = (Exchange(tmp_path, number, 2) for number in range(2))
    first.offer(3.0, plan=plan(1))
    first.offer(3.0, plan=plan(2))
    first.offer(float("inf"), plan=plan(0))
    assert seen(second) == [(3.0, 1)]
    assert [path.name for path in tmp_path.iterdir()] == ["shown-0.npz"], "nothing unfinished is left"
