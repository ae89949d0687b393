"""Starts of prefetches: their order, the longest stay (XLA: `prefetch_interval_picker_test.cc`)."""

import dataclasses

import numpy as np
import pytest
from numba import types
from programs import TARGET, make_program

from mallocmuzero.env.compiled.kernel import kernel, vector
from mallocmuzero.solvers.xla import interval_picker
from mallocmuzero.solvers.xla.build_problem import make_problem
from mallocmuzero.solvers.xla.options import Options
from mallocmuzero.solvers.xla.problem import NEVER, Problem
from mallocmuzero.solvers.xla.state import CUT, State, make_state

COPY_S = np.float32(3.0)
OPTIONS = Options(typical_bytes=300, min_overlap=1.0, preferred_overlap=2.0, max_overlap=4.0)


@kernel(Problem, int, int, returns=types.float32)
def elapsed(problem: Problem, start: int, end: int) -> np.float32:
    return interval_picker.elapsed(problem, start, end)


@kernel(Problem, int, int, returns=bool)
def can_stay(problem: Problem, start: int, end: int) -> bool:
    return interval_picker.can_stay(problem, start, end)


@kernel(Problem, types.float32, types.float32, int, int, returns=int)
def latest_start(problem: Problem, copy_s: np.float32, gain_s: np.float32, start: int, end: int) -> int:
    return interval_picker.latest_start(problem, copy_s, gain_s, start, end)


@kernel(Problem, types.float32, int, int, int, returns=int)
def write_back_end(problem: Problem, copy_s: np.float32, start: int, last: int, retry: int) -> int:
    return interval_picker.write_back_end(problem, copy_s, start, last, retry)


@kernel(Problem, State, int, int, int)
def slice_starts(problem: Problem, state: State, start: int, end: int, count: int) -> None:
    interval_picker.slice_starts(problem, start, end, count, state.cut)


@kernel(Problem, State, types.float32, int, int, int, vector(np.int64), returns=int)
def all_starts(
    problem: Problem, state: State, copy_s: np.float32, first: int, end: int, wanted: int, found: np.ndarray
) -> int:
    """Writes all starts to `found` and returns how many there are."""
    interval_picker.begin(problem, state.picker, copy_s, np.float32(0.0), first, end, wanted)
    count = 0
    while not interval_picker.is_done(state.picker):
        found[count] = interval_picker.next_start(problem, state.picker)
        count += 1
    return count


def a_problem(steps: int, loops: tuple[tuple[int, int, int], ...] = ()) -> Problem:
    # One second each; a copy of all of fast memory takes three.
    target = dataclasses.replace(TARGET, fast_bytes=304)
    instructions = [(f"step.{t}", 1.0, [], ["out"]) for t in range(steps)]
    program = make_program(instructions, {"out": {"size": 8, "output": True}}, target, loops)
    return make_problem(program, target, OPTIONS)[0]


def starts(problem: Problem, first: int, end: int, wanted: int = NEVER) -> list[int]:
    found = np.zeros(100, np.int64)
    count = all_starts(problem, make_state(problem), COPY_S, first, end, wanted, found)
    return found[:count].tolist()


def test_starts_alternate_around_the_preferred_one_and_then_go_down() -> None:
    assert starts(a_problem(24), 0, 22) == [15, 16, 14, 17, 13, 18, 12, 11, 10, 9]


def test_a_window_that_is_shorter_than_the_copy_has_no_start() -> None:
    assert starts(a_problem(24), 19, 22) == []


def test_a_wanted_start_comes_first() -> None:
    assert starts(a_problem(24), 0, 22, wanted=11)[:4] == [11, 12, 10, 13]


def test_a_wanted_start_that_is_too_late_counts_as_none() -> None:
    assert starts(a_problem(24), 0, 22, wanted=20) == starts(a_problem(24), 0, 22)


def test_no_prefetch_starts_in_a_loop_that_its_use_is_not_in() -> None:
    problem = a_problem(32, loops=((19, 24, 5),))
    found = starts(problem, 0, 30)
    assert found
    assert not set(found) & set(range(19, 25))
    # Instructions in the loop count five times.
    assert elapsed(problem, 18, 30) == pytest.approx(5 * 6 + 5)


def test_inside_a_loop_time_counts_once() -> None:
    assert elapsed(a_problem(32, loops=((19, 24, 5),)), 20, 24) == pytest.approx(3.0)


def test_a_gain_shortens_the_time_that_a_copy_needs() -> None:
    problem = a_problem(24)
    assert latest_start(problem, COPY_S, np.float32(0.0), 0, 22) == 18
    assert latest_start(problem, COPY_S, np.float32(2.0), 0, 22) == 20


def test_a_stay_is_limited_in_time_and_not_by_its_size() -> None:
    problem = a_problem(24)  # 12.16 seconds
    assert can_stay(problem, 0, 13)
    assert not can_stay(problem, 0, 14)


def test_a_second_attempt_leaves_a_write_back_more_time() -> None:
    problem = a_problem(40)
    assert write_back_end(problem, COPY_S, 2, 39, 0) == 9  # six seconds
    assert write_back_end(problem, COPY_S, 2, 39, 1) == 21  # eighteen
    assert write_back_end(problem, COPY_S, 2, 12, 1) == 13  # none that is long enough


@pytest.mark.parametrize(
    ("start", "end", "count", "expected"),
    [
        (0, 9, 4, [0, 2, 4, 6]),
        (-1, 8, 2, [-1, 3]),
        (5, 7, 3, [5, 5, 5]),  # no time to spread
        (5, 6, 2, [5, 5]),
    ],
)
def test_slices_start_as_time_goes_by(start: int, end: int, count: int, expected: list[int]) -> None:
    problem = a_problem(24)
    state = make_state(problem).replace(cut=np.zeros(count, CUT))
    slice_starts(problem, state, start, end, count)
    assert state.cut["start"].tolist() == expected
