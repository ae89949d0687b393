"""The bytes that copies can move, and the times (XLA: `AsynchronousCopyResourceTest`)."""

import numpy as np
import pytest

from mallocmuzero.solvers.xla.copy_resource import (
    CopyResource,
    add,
    has_enough,
    make_resource,
    outstanding,
    remove,
    take_back,
)

Copy = tuple[int, int, int]
CHAIN: list[Copy] = [(6, 10, 2), (5, 9, 2), (4, 8, 2), (3, 7, 2), (2, 6, 2), (1, 5, 2)]


def left(queue: CopyResource, supply: np.ndarray) -> list[int]:
    """Returns the supply of each time that no delay uses."""
    return np.maximum(supply - queue.delay[: len(supply)], 0).tolist()


def put(queue: CopyResource, supply: np.ndarray, copy: Copy) -> None:
    start, end, need = copy
    assert has_enough(queue, supply, start, end, need)
    add(queue, supply, start, end, need, start + 1)


def a_queue(*supply: int) -> tuple[CopyResource, np.ndarray]:
    supplied = np.array(supply, np.int64)
    return make_resource(supplied, 16), supplied


def test_copies_share_what_instructions_supply() -> None:
    queue, supply = a_queue(2, 3, 1, 6, 7, 1, 7, 2, 2, 4)
    for copy in ((-1, 3, 5), (1, 4, 4), (5, 9, 10)):
        put(queue, supply, copy)
    assert not has_enough(queue, supply, 4, 9, 3)
    put(queue, supply, (4, 8, 2))
    assert left(queue, supply) == [0, 0, 0, 3, 7, 0, 0, 0, 0, 4]


@pytest.mark.parametrize(
    ("copies", "last", "fits"),
    [
        # Each new copy delays those behind it, until one of them would miss its end.
        (CHAIN, (0, 4, 3), True),
        ([*CHAIN, (0, 4, 3)], (0, 4, 2), True),
        ([*CHAIN, (0, 4, 3), (0, 4, 2)], (0, 4, 2), False),
        # Of copies that start together, the one added first moves first.
        ([(5, 10, 2), (4, 9, 2), (3, 8, 4)], (3, 8, 4), True),
        ([(5, 10, 2), (4, 9, 2), (3, 8, 4)], (3, 6, 4), False),
        ([(5, 10, 2), (4, 9, 2), (3, 8, 4), (3, 8, 4)], (2, 8, 3), False),
    ],
)
def test_delays_are_handed_on(copies: list[Copy], last: Copy, fits: bool) -> None:
    queue, supply = a_queue(*[2] * 10)
    for copy in copies:
        put(queue, supply, copy)
    before = queue.delay.copy()
    assert has_enough(queue, supply, *last) == fits
    assert (queue.delay == before).all()  # asking changes nothing


def test_a_copy_inside_another_waits_for_it() -> None:
    queue, supply = a_queue(*[2] * 5)
    put(queue, supply, (1, 3, 2))
    assert not has_enough(queue, supply, 0, 4, 4)  # it would push the first beyond its end


def test_a_copy_of_nothing_fits_behind_any_delay() -> None:
    queue, supply = a_queue(1, 1, 1, 1, 1, 1)
    put(queue, supply, (-1, 6, 6))
    assert not has_enough(queue, supply, 1, 3, 1)
    assert has_enough(queue, supply, 1, 3, 0)


def test_an_addition_can_be_undone() -> None:
    queue, supply = a_queue(*[2] * 10)
    put(queue, supply, (2, 7, 3))
    before = queue.delay.copy(), queue.copy.copy(), queue.counts.copy()
    put(queue, supply, (1, 8, 4))
    remove(queue, 1, 2, 8)
    take_back(queue, before[2][1])
    assert (queue.delay == before[0]).all()
    assert (queue.copy[:1] == before[1][:1]).all()
    assert queue.counts.tolist() == before[2].tolist()


def test_copies_in_flight_are_counted_where_windows_meet() -> None:
    queue, supply = a_queue(*[2] * 10)
    put(queue, supply, (1, 4, 1))
    put(queue, supply, (3, 8, 1))
    assert [outstanding(queue, t, t) for t in range(10)] == [0, 0, 1, 1, 2, 1, 1, 1, 1, 0]
    assert outstanding(queue, 0, 9) == 2
