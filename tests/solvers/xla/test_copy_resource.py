"""The bytes that copies can move, and the times (XLA: `AsynchronousCopyResourceTest`)."""

import numpy as np
import pytest

from mallocmuzero.env.compiled.kernel import kernel
from mallocmuzero.solvers.xla import copy_resource
from mallocmuzero.solvers.xla.copy_resource import CopyResource, make_resource

Copy = tuple[int, int, int]
CHAIN: list[Copy] = [(6, 10, 2), (5, 9, 2), (4, 8, 2), (3, 7, 2), (2, 6, 2), (1, 5, 2)]


@kernel(CopyResource, int, int, int, returns=bool)
def has_enough(resource: CopyResource, start: int, end: int, need: int) -> bool:
    return copy_resource.has_enough(resource, start, end, need)


@kernel(CopyResource, int, int, int, int)
def add(resource: CopyResource, start: int, end: int, need: int, counted_from: int) -> None:
    copy_resource.add(resource, start, end, need, counted_from)


@kernel(CopyResource)
def clear(resource: CopyResource) -> None:
    copy_resource.clear(resource)


@kernel(CopyResource, int, int, int)
def take_out(resource: CopyResource, start: int, end: int, changes: int) -> None:
    copy_resource.remove(resource, start, end)
    copy_resource.take_back(resource, changes)


@kernel(CopyResource, int, int, returns=int)
def outstanding(resource: CopyResource, first: int, last: int) -> int:
    return copy_resource.outstanding(resource, first, last)


def left(queue: CopyResource) -> list[int]:
    """Returns the supply of each time that no delay uses."""
    return np.maximum(queue.supply - queue.delay[: len(queue.supply)], 0).tolist()


def put(queue: CopyResource, copy: Copy) -> None:
    start, end, need = copy
    assert has_enough(queue, start, end, need)
    add(queue, start, end, need, start + 1)


def a_queue(*supply: int) -> CopyResource:
    queue = make_resource(np.array(supply, np.int64), 16, 16)
    clear(queue)
    return queue


def test_copies_share_what_instructions_supply() -> None:
    queue = a_queue(2, 3, 1, 6, 7, 1, 7, 2, 2, 4)
    for copy in ((-1, 3, 5), (1, 4, 4), (5, 9, 10)):
        put(queue, copy)
    assert not has_enough(queue, 4, 9, 3)
    put(queue, (4, 8, 2))
    assert left(queue) == [0, 0, 0, 3, 7, 0, 0, 0, 0, 4]


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
    queue = a_queue(*[2] * 10)
    for copy in copies:
        put(queue, copy)
    before = queue.delay.copy()
    assert has_enough(queue, *last) == fits
    assert (queue.delay == before).all()  # asking changes nothing


def test_a_copy_inside_another_waits_for_it() -> None:
    queue = a_queue(*[2] * 5)
    put(queue, (1, 3, 2))
    assert not has_enough(queue, 0, 4, 4)  # it would push the first beyond its end


def test_a_copy_of_nothing_fits_behind_any_delay() -> None:
    queue = a_queue(1, 1, 1, 1, 1, 1)
    put(queue, (-1, 6, 6))
    assert not has_enough(queue, 1, 3, 1)
    assert has_enough(queue, 1, 3, 0)


def test_an_addition_can_be_undone() -> None:
    queue = a_queue(*[2] * 10)
    put(queue, (2, 7, 3))
    before = queue.delay.copy(), queue.copy.copy(), queue.now.copy()
    put(queue, (1, 8, 4))
    take_out(queue, 1, 8, before[2].changes)
    assert (queue.delay == before[0]).all()
    assert (queue.copy[:1] == before[1][:1]).all()
    assert (queue.now.copies, queue.now.changes) == (before[2].copies, before[2].changes)
    assert [outstanding(queue, t, t) for t in range(10)] == [0, 0, 0, 1, 1, 1, 1, 1, 0, 0]
    # Its window is used again.
    put(queue, (1, 8, 4))
    assert queue.now.windows == 2


def in_order(queue: CopyResource) -> list[Copy]:
    """Returns the copies in their order."""
    found, at = [], int(queue.now.first)
    while at >= 0:
        row = queue.copy[at]
        found.append((int(row["start"]), int(row["end"]), int(row["need"])))
        at = int(row["after"])
    return found


def test_copies_keep_their_order_however_they_come_and_go() -> None:
    generator = np.random.default_rng(0)
    queue = make_resource(np.full(300, 100, np.int64), 64, 4096)
    clear(queue)
    expected: list[Copy] = []
    for step in range(2000):
        if expected and (len(expected) == 60 or generator.random() < 0.45):
            start, end, _ = expected[int(generator.integers(len(expected)))]
            take_out(queue, start, end, int(queue.now.changes))
            last = max(index for index, copy in enumerate(expected) if copy[0] == start)
            del expected[last]
        else:
            start = int(generator.integers(-1, 290)) if generator.random() < 0.5 else int(generator.integers(130, 134))
            copy = (start, start + 9, step)
            add(queue, *copy, start + 1)
            expected.insert(next((k for k, other in enumerate(expected) if other[0] > start), len(expected)), copy)
        assert in_order(queue) == expected
    assert queue.now.copies == len(expected)
    assert not queue.now.is_full


def test_copies_in_flight_are_counted_where_windows_meet() -> None:
    queue = a_queue(*[2] * 10)
    put(queue, (1, 4, 1))
    put(queue, (3, 8, 1))
    assert [outstanding(queue, t, t) for t in range(10)] == [0, 0, 1, 1, 2, 1, 1, 1, 1, 0]
    assert outstanding(queue, 0, 9) == 2


def test_a_slice_that_is_removed_goes_on_to_count() -> None:
    queue = a_queue(*[2] * 10)
    add(queue, 1, 8, 1, 1)  # a slice counts from its start on
    take_out(queue, 1, 8, 0)
    assert outstanding(queue, 0, 9) == 1
    # It takes another copy that begins to count where a whole copy would.
    put(queue, (1, 8, 1))
    add(queue, 1, 8, 1, 1)
    take_out(queue, 1, 8, 0)
    assert outstanding(queue, 1, 1) == 2
    assert outstanding(queue, 0, 9) == 2
