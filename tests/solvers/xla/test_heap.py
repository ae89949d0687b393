"""Places of buffers: best fit over all of time, slices, the last use (XLA: `GlobalDecreasingSizeBestFitHeap`)."""

import numpy as np
import pytest
from programs import TARGET, make_program

from mallocmuzero.env.compiled.kernel import kernel
from mallocmuzero.solvers.xla import heap as heaps
from mallocmuzero.solvers.xla import sliced_allocation
from mallocmuzero.solvers.xla.build_problem import make_problem
from mallocmuzero.solvers.xla.heap import NO_OFFSET, Heap, make_heap
from mallocmuzero.solvers.xla.options import Options
from mallocmuzero.solvers.xla.problem import Problem
from mallocmuzero.solvers.xla.state import CUT, State, make_state

STEPS = 40
Chunk = tuple[int, int, int, int]


@kernel(Heap, int, int, int, int)
def commit(heap: Heap, first: int, last: int, offset: int, size: int) -> None:
    heaps.commit(heap, first, last, offset, size)


@kernel(Heap, int)
def undo(heap: Heap, chunks: int) -> None:
    heaps.undo(heap, chunks)


@kernel(Problem, Heap, int, int, int, int, returns=int)
def fit(problem: Problem, heap: Heap, first: int, last: int, size: int, preferred_offset: int) -> int:
    return heaps.fit(problem, heap, first, last, size, preferred_offset)


@kernel(Heap, int, int, int, int, returns=int)
def latest_free(heap: Heap, first: int, last: int, offset: int, size: int) -> int:
    return heaps.latest_free(heap, first, last, offset, size)


@kernel(Problem, Heap, State, int, int, int, returns=int)
def fit_slices(problem: Problem, heap: Heap, state: State, count: int, last: int, preferred_offset: int) -> int:
    return sliced_allocation.fit_slices(problem, heap, state, count, last, preferred_offset)


@kernel(Problem, Heap, int, int, int, returns=int)
def bytes_since(problem: Problem, heap: Heap, earliest: int, end: int, size: int) -> int:
    return heaps.bytes_since(problem, heap, earliest, end, size)


@pytest.fixture(scope="module")
def problem() -> Problem:
    program = make_program(
        [(f"step.{t}", 1.0, [], ["out"]) for t in range(STEPS)], {"out": {"size": 8, "output": True}}
    )
    return make_problem(program, TARGET, Options())[0]


def a_heap(*chunks: Chunk) -> Heap:
    """Returns a heap with chunks `(first, last, offset, size)`."""
    heap = make_heap(STEPS, 100, 1000)
    for first, last, offset, size in chunks:
        commit(heap, first, last, offset, size)
    return heap


def test_best_fit_takes_the_smallest_gap(problem: Problem) -> None:
    heap = a_heap((0, 9, 0, 16), (0, 9, 48, 8), (0, 9, 72, 8))
    assert fit(problem, heap, 2, 5, 16, -1) == 56  # not 16, where 32 bytes are free, nor above 80
    assert fit(problem, heap, 2, 5, 24, -1) == 16
    assert fit(problem, heap, 2, 5, 48, -1) == 80  # the free bytes above everything come last
    assert fit(problem, heap, 2, 5, 56, -1) == NO_OFFSET
    assert fit(problem, heap, 10, 20, 128, -1) == 0  # all is free later


def test_offsets_are_aligned(problem: Problem) -> None:
    heap = a_heap((0, 9, 0, 3))
    assert fit(problem, heap, 0, 9, 10, -1) == 8


def test_a_wanted_offset_is_the_only_one(problem: Problem) -> None:
    heap = a_heap((4, 9, 0, 16))
    assert fit(problem, heap, 0, 5, 8, 8) == NO_OFFSET
    assert fit(problem, heap, 0, 3, 8, 8) == 8
    assert fit(problem, heap, 0, 5, 16, 112) == 112
    assert fit(problem, heap, 0, 5, 24, 112) == NO_OFFSET


def test_the_latest_time_up_to_which_bytes_are_free(problem: Problem) -> None:
    heap = a_heap((20, 22, 8, 8), (30, 31, 0, 8))
    assert latest_free(heap, 3, 39, 0, 8) == 29
    assert latest_free(heap, 3, 39, 0, 16) == 19
    assert latest_free(heap, 3, 10, 0, 16) == 10
    assert latest_free(heap, 21, 39, 8, 8) == 20


def test_undo_frees_the_newest_chunks(problem: Problem) -> None:
    heap = a_heap((0, 39, 0, 64))
    commit(heap, 5, 30, 64, 64)
    assert fit(problem, heap, 0, 39, 8, -1) == NO_OFFSET
    undo(heap, 1)
    assert fit(problem, heap, 0, 39, 64, -1) == 64
    assert heap.used[:STEPS].tolist() == [64] * STEPS


def test_best_fit_agrees_with_a_plain_search(problem: Problem) -> None:
    generator = np.random.default_rng(0)
    for _ in range(50):
        heap = make_heap(STEPS, 100, 1000)
        taken = np.zeros((STEPS, 16), bool)
        for _ in range(20):
            first, last = sorted(generator.integers(0, STEPS, 2).tolist())
            size = int(generator.integers(1, 6))
            used = taken[first : last + 1].any(axis=0)
            gaps, start = [], 0
            for place in range(17):
                if place == 16 or used[place]:
                    if place - start >= size:
                        gaps.append((place - start if place < 16 else 99, start))
                    start = place + 1
            expected = min(gaps)[1] * 8 if gaps else NO_OFFSET
            assert fit(problem, heap, first, last, size * 8, -1) == expected
            if expected != NO_OFFSET:
                commit(heap, first, last, expected, size * 8)
                taken[first : last + 1, expected // 8 : expected // 8 + size] = True


def test_long_intervals_are_looked_at_by_blocks(problem: Problem) -> None:
    generator, times = np.random.default_rng(1), 500
    heap = make_heap(times, 400, 40000)
    taken: list[np.ndarray] = []
    deepest = 0
    for _ in range(300):
        if taken and generator.random() < 0.15:
            left = len(taken) - 1 - int(generator.integers(min(len(taken), 3)))
            undo(heap, left)
            taken = taken[:left]
        first, last = sorted(generator.integers(0, times, 2).tolist())
        bits = np.zeros((times, 16), bool)
        for other in taken:
            bits |= other
        size = int(generator.integers(1, 9))
        used = bits[first : last + 1].any(axis=0)
        free = [place for place in range(17 - size) if not used[place : place + size].any()]
        offset = fit(problem, heap, first, last, size * 8, -1)
        assert (offset // 8 in free) if free else offset == NO_OFFSET
        most = bits.sum(axis=1) <= 16 - size
        since = next((t for t in range(last, first, -1) if not most[t - 1]), first + 1)
        assert bytes_since(problem, heap, first, last, size * 8) == min(since, last)
        place = int(generator.integers(0, 17 - size))
        until = next((t - 1 for t in range(first, last + 1) if bits[t, place : place + size].any()), last)
        assert latest_free(heap, first, last, place * 8, size * 8) == until
        if free:
            commit(heap, first, last, offset, size * 8)
            chunk = np.zeros((times, 16), bool)
            chunk[first : last + 1, offset // 8 : offset // 8 + size] = True
            taken.append(chunk)
        deepest = max(deepest, len(taken))
    assert deepest > 10


@pytest.fixture(scope="module")
def state(problem: Problem) -> State:
    cut = np.zeros(8, CUT)
    cut["turn"] = -1
    return make_state(problem).replace(cut=cut)


def test_slices_come_in_an_order_that_fits(problem: Problem, state: State) -> None:
    # The low bytes are in use while the first slice comes: the high ones come first.
    heap = a_heap((5, 9, 0, 32), (0, 39, 64, 64))
    state.cut["bytes"][:2], state.cut["start"][:2] = 32, (4, 9)
    assert fit_slices(problem, heap, state, 2, 20, -1) == 0
    assert state.cut["tried"][:2].tolist() == [1, 0]
    heap = a_heap((5, 9, 32, 32), (0, 39, 64, 64))
    assert fit_slices(problem, heap, state, 2, 20, -1) == 0
    assert state.cut["tried"][:2].tolist() == [0, 1]
    heap = a_heap((5, 9, 16, 32), (0, 39, 64, 64))
    assert fit_slices(problem, heap, state, 2, 20, -1) == NO_OFFSET


def test_slices_may_have_to_come_to_one_offset(problem: Problem, state: State) -> None:
    heap = a_heap((5, 9, 32, 32))
    state.cut["bytes"][:2], state.cut["start"][:2] = 32, (4, 9)
    assert fit_slices(problem, heap, state, 2, 20, 32) == 32
    assert state.cut["tried"][:2].tolist() == [1, 0]
    assert fit_slices(problem, heap, state, 2, 20, 24) == NO_OFFSET
    # It is in use when all slices have come.
    assert fit_slices(problem, a_heap((15, 20, 32, 8)), state, 2, 20, 32) == NO_OFFSET


def test_many_slices_come_upwards_or_downwards_or_from_the_middle(problem: Problem, state: State) -> None:
    starts = state.cut["start"]
    state.cut["bytes"][:5], starts[:5] = 16, (4, 5, 6, 7, 8)
    everything_else = (0, 39, 80, 48)
    for blocked, order in (
        ([], [0, 1, 2, 3, 4]),
        ([(5, 5, 0, 16)], [4, 3, 2, 1, 0]),
        ([(5, 5, 0, 16), (5, 5, 64, 16)], [2, 1, 3, 0, 4]),
    ):
        assert fit_slices(problem, a_heap(everything_else, *blocked), state, 5, 20, -1) == 0
        assert state.cut["tried"][:5].tolist() == order
    middle = (5, 5, 32, 16)
    assert fit_slices(problem, a_heap(everything_else, (5, 5, 0, 16), middle, (5, 5, 64, 16)), state, 5, 20, -1) < 0


def test_slices_of_another_size_keep_their_turns_when_moved(problem: Problem, state: State) -> None:
    state.cut["bytes"][:5], state.cut["start"][:5] = (16, 16, 16, 16, 8), (4, 5, 6, 7, 8)
    # The small one, of the highest bytes, comes first.
    state.cut["turn"][:5] = (1, 2, 3, 4, 0)
    heap = a_heap((0, 39, 72, 56), (6, 6, 0, 16))
    assert fit_slices(problem, heap, state, 5, 20, -1) == 0
    assert state.cut["tried"][:5].tolist() == [4, 3, 2, 1, 0]
    state.cut["turn"] = -1
