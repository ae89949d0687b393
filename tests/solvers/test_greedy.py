"""The solver `greedy`: stays, knapsacks, and the benefit of look-ahead."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import make_program, programs

from mallocmuzero.env.game.moves import COPY, DROP, NO_COPY
from mallocmuzero.env.game.plan import CROSS_PROGRAM_FETCH
from mallocmuzero.env.residency.stays import Stays, make_stays, plan_of_stays
from mallocmuzero.env.workloads import load
from mallocmuzero.solvers.common.budget import Budget, Status
from mallocmuzero.solvers.common.task import Task
from mallocmuzero.solvers.greedy import greedy, look_ahead
from mallocmuzero.solvers.starts.knapsack import take

# `w` is read at both ends; `a` bridges them. All three fit, but not together with `x`.
PROGRAM = make_program(
    [
        ("use", 0.0, ["w"], ["a"]),
        ("busy", 9.0, ["x"], ["b"]),
        ("again", 0.0, ["w", "a", "b"], ["out"]),
    ],
    {
        "w": {"size": 40, "input": True},
        "x": {"size": 64, "input": True},
        "a": 24,
        "b": 16,
        "out": {"size": 8, "output": True},
    },
)


def task_of(program, games: int = 10_000) -> Task:
    return Task(program, None, "msa", Budget(None, games), 0)


def test_stays_are_cut_where_they_idle() -> None:
    task = task_of(PROGRAM)
    names = PROGRAM.buffer_names
    whole, parts = make_stays(task.tables, 1.0), make_stays(task.tables, 0.5)
    w = [access for access, buffer in enumerate(PROGRAM.access_buffer) if names[buffer] == "w"]
    a = [access for access, buffer in enumerate(PROGRAM.access_buffer) if names[buffer] == "a"]
    assert whole.of_access[w[0]] == whole.of_access[w[1]]
    assert parts.of_access[w[0]] != parts.of_access[w[1]]
    assert (whole.first[whole.of_access[w[0]]], whole.last[whole.of_access[w[0]]]) == (0, 2)
    assert whole.preference[a].tolist() == [NO_COPY, COPY]  # stays: nothing needs it in HBM
    assert parts.preference[a].tolist() == [COPY, COPY]  # written back, for the stay that follows
    assert whole.size[whole.of_access[w[0]]] == 40
    # Each read of `w` saves the difference between both memories' times for its bytes.
    saved = 40 / 100.0 - 40 / 1000.0
    assert whole.benefit_s[whole.of_access[w[0]]] == pytest.approx(2 * saved)
    assert parts.benefit_s[parts.of_access[w[0]]] == pytest.approx(saved)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_knapsack_fits_and_nothing_more_does(data) -> None:
    count, steps = data.draw(st.integers(1, 8)), 6
    draw = np.random.default_rng(data.draw(st.integers(0, 2**31)))
    first = draw.integers(0, steps, count)
    last = np.minimum(first + draw.integers(0, steps, count), steps - 1)
    size, free = draw.integers(1, 50, count), draw.integers(0, 100, steps).astype(float)
    order = draw.permutation(count)
    nothing = np.zeros(count)
    stays = Stays(np.zeros(0, np.int64), first, last, size, nothing, nothing, np.zeros(0, np.int8))
    chosen = take(order, stays, free)
    used = np.zeros(steps)
    for stay in np.flatnonzero(chosen):
        used[first[stay] : last[stay] + 1] += size[stay]
    assert (used <= free).all()
    for stay in np.flatnonzero(~chosen):
        span = slice(first[stay], last[stay] + 1)
        assert (used[span] + size[stay] > free[span]).any()


def test_one_input_at_most_prefers_to_come_across() -> None:
    task = task_of(load("resnet50-b32-v4"))
    stays = make_stays(task.tables, 0.1)
    plan = plan_of_stays(task.tables, stays, np.ones(len(stays.size), bool))
    assert len(np.unique(task.tables.access["buffer"][plan == CROSS_PROGRAM_FETCH])) == 1
    nothing = plan_of_stays(task.tables, stays, np.zeros(len(stays.size), bool))
    assert (nothing == DROP).all()


@settings(max_examples=20, deadline=None)
@given(programs(), st.sampled_from([1.0, 0.1, 0.0]))
def test_every_placeable_access_belongs_to_a_stay_that_spans_it(program, cut: float) -> None:
    task = task_of(program)
    stays = make_stays(task.tables, cut)
    assert (stays.of_access[task.free] >= 0).all()
    for access in np.flatnonzero(stays.of_access >= 0):
        stay = stays.of_access[access]
        assert stays.first[stay] <= program.access_instruction[access] <= stays.last[stay]


def test_looking_ahead_beats_the_knapsack_it_starts_from() -> None:
    stages: dict[str, float] = {}

    def progress(status: Status) -> None:
        stages[status.doing] = status.best_s

    task = Task(load("resnet50-b32-v4"), None, "msa", Budget(None, 10_000), 0, progress)
    greedy(task)
    assert task.evaluations < 10_000  # it ends by itself
    everything = task.play(np.full(len(task.tables.access), COPY, np.int8))
    assert stages["benefit per byte and second"] < everything
    assert task.best_s < min(stages["benefit per byte and second"], stages["greedy rules"])


def test_looking_ahead_keeps_only_what_helps() -> None:
    task = task_of(load("tiny"))
    stays = make_stays(task.tables, 0.1)
    look_ahead(task, stays)
    nothing = task_of(load("tiny")).play(np.full(len(task.tables.access), DROP, np.int8))
    assert task.best_s < nothing
    assert task.best_plan is not None
    assert task.play(task.best_plan) == pytest.approx(task.best_s, rel=1e-12)
