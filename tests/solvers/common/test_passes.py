"""The search over what loops hold and what their passes fetch."""

import numpy as np
import pytest
from programs import make_program

from mallocmuzero.env.game.holding import HOLD_ALL, per_pass_of, releasable
from mallocmuzero.env.game.moves import COPY
from mallocmuzero.env.program.program import Program
from mallocmuzero.env.verifier.verify import verify
from mallocmuzero.env.workloads import load
from mallocmuzero.solvers.common.budget import Budget
from mallocmuzero.solvers.common.passes import Found, Passes
from mallocmuzero.solvers.common.task import Task
from mallocmuzero.solvers.learned.starts import followed_starts


def weights(count: int) -> Program:
    """Each pass reads `count` weights, one after the other, of which fast memory holds one at a time."""
    body = []
    for k in range(count):
        body += [(f"work.{k}", 3.0, [f"x{k}"], [f"y{k}"]), (f"use.{k}", 0.5, [f"w{k}", f"y{k}"], [f"x{k + 1}"])]
    return make_program(
        [("begin", 1.0, [], ["x0"]), *body, ("end", 1.0, [f"x{count}"], ["out"])],
        {
            **{f"w{k}": {"size": 96, "input": True} for k in range(count)},
            **{f"x{k}": 8 for k in range(count + 1)},
            **{f"y{k}": 8 for k in range(count)},
            "out": {"size": 8, "output": True},
        },
        loops=[(1, 2 * count, 10)],
    )


def test_weights_that_do_not_fit_together_come_in_each_pass() -> None:
    program = weights(4)
    task = Task(program, None, "msa", Budget(None, 2000), 0)
    everything = np.full(program.num_accesses, COPY, np.int8)
    held_s = task.play(everything)
    found = Passes(task).improve(Found(everything, task.plan_tables, held_s), 1.0)
    mapping = task.mapping()
    assert mapping is not None
    assert verify(program, program.target, mapping) == []
    assert found.seconds < held_s
    assert task.game.judge.judge(mapping) == pytest.approx(found.seconds)
    assert len(per_pass_of(program, mapping)) >= 2
    weights_of = np.isin(program.access_buffer, [program.buffer_names.index(f"w{k}") for k in range(4)])
    assert mapping.access_fast[weights_of].sum() >= 3


def test_without_loops_nothing_is_tried() -> None:
    task = Task(load("tiny"), None, "msa", Budget(None, 100), 0)
    plan = np.full(len(task.tables.access), COPY, np.int8)
    found = Found(plan, task.plan_tables, task.play(plan))
    passes = Passes(task)
    assert not passes.pairs
    assert passes.improve(found, 1.0) is found
    assert task.evaluations == 1


def test_it_ends_with_the_budget() -> None:
    program = weights(4)
    task = Task(program, None, "msa", Budget(None, 5), 0)
    plan = np.full(program.num_accesses, COPY, np.int8)
    Passes(task).improve(Found(plan, task.plan_tables, task.play(plan)), 1.0)
    assert task.evaluations == 5


def test_tables_differ_in_what_loops_hold_alone() -> None:
    program = weights(2)
    task = Task(program, None, "msa", Budget(None, 10), 0)
    pairs = releasable(program)
    other = task.with_per_pass(task.plan_tables, pairs)
    assert (task.plan_tables.per_pass, other.per_pass) == (HOLD_ALL, pairs)
    assert np.array_equal(other.tables.hints(), task.plan_tables.tables.hints())
    assert task.with_per_pass(other, HOLD_ALL).tables.access.tolist() == task.plan_tables.tables.access.tolist()


def test_followed_production_keeps_what_its_passes_fetch() -> None:
    program = load("retnet-scan-train-b4-s1024-v5p")
    assert program.production is not None
    pairs = per_pass_of(program, program.production)
    assert pairs
    task = Task(program, None, "msa", Budget(None, 100), 0)
    for start in followed_starts(task, 1.0):
        assert start.plan_tables.per_pass == pairs
