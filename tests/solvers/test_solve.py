"""`solve`: verified mappings from every solver, equal ones from equal seeds, within limits, also when stopped."""

import gc
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core.dispatcher import Dispatcher
from programs import programs

from mallocmuzero.env.errors import UserError
from mallocmuzero.env.physics.objective import make_judge
from mallocmuzero.env.program.program import all_hbm
from mallocmuzero.env.verifier.verify import verify
from mallocmuzero.env.workloads import load
from mallocmuzero.solvers import solve as solve_module
from mallocmuzero.solvers.common.budget import Budget, Status
from mallocmuzero.solvers.common.task import Task
from mallocmuzero.solvers.solve import SOLVERS, solve

PROGRAM = "resnet50-b32-v4"
# Those that take seconds on it play on the smallest.
SMALLEST = {"egrl": "tiny", "milp": "tiny"}


@pytest.mark.parametrize("solver", SOLVERS)
def test_solvers_repeat_and_keep_limits(solver: str) -> None:
    program = load(SMALLEST.get(solver, PROGRAM))
    first, second, other = (
        solve(program, solver, objective="msa", budget=Budget(None, 150), seed=seed) for seed in (3, 3, 4)
    )
    assert first.mapping.origin["solver"] == solver
    assert first.judged_s == second.judged_s
    for a, b in (
        (first.mapping.access_fast, second.mapping.access_fast),
        (first.mapping.residencies, second.mapping.residencies),
        (first.mapping.copies, second.mapping.copies),
    ):
        np.testing.assert_array_equal(a, b)
    assert 1 <= first.evaluations <= 150 + 48
    assert other.judged_s <= make_judge(program, "msa").judge(all_hbm(program))
    judge = make_judge(program, "msa")
    assert judge.judge(first.mapping) == first.judged_s
    assert verify(program, program.target, first.mapping) == []


@settings(max_examples=15, deadline=None)
@given(programs(), st.sampled_from(sorted(SOLVERS)))
def test_solvers_take_any_program(program, solver: str) -> None:
    solution = solve(program, solver, budget=Budget(None, 30))
    assert verify(program, program.target, solution.mapping) == []


def test_a_stopped_solver_leaves_the_best_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    program, seen = load(PROGRAM), []

    def progress(status: Status) -> None:
        seen.append(status)
        if status.evaluations >= 40:
            raise KeyboardInterrupt

    solution = solve(program, "anneal", objective="msa", budget=Budget(None, 10**9), progress=progress)
    assert solution.stopped
    assert solution.judged_s <= seen[-1].best_s
    assert [status.best_s for status in seen] == sorted((s.best_s for s in seen), reverse=True)

    asked = iter([False, False, True])
    stopped = solve(program, "random", budget=Budget(None, 10**9), stop=lambda: next(asked, True))
    assert stopped.stopped
    assert stopped.evaluations <= 3

    def at_once(task: Task) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(solve_module, "warm_up", lambda solver: None)
    monkeypatch.setitem(SOLVERS, "random", at_once)
    nothing = solve(program, "random", budget=Budget(None, 1))
    assert nothing.judged_s == make_judge(program).judge(all_hbm(program))


def test_no_time_still_gives_a_mapping() -> None:
    for solver in SOLVERS:
        solution = solve(load("tiny"), solver, budget=Budget(0.0))
        assert solution.judged_s < make_judge(load("tiny")).judge(all_hbm(load("tiny")))


def test_impossible_arguments_are_user_errors() -> None:
    program = load("tiny")
    with pytest.raises(UserError, match="no solver is called 'nobody'; the solvers are anneal"):
        solve(program, "nobody")
    with pytest.raises(UserError, match="not known"):
        solve(program, "random", objective="nothing")
    with pytest.raises(UserError, match="never end"):
        Budget(None, None)
    with pytest.raises(UserError, match="-1"):
        Budget(-1.0)


@pytest.mark.parametrize("name", ["anneal", "cem", "restarts", "greedy", "order-search"])
def test_nothing_is_compiled_while_the_clock_runs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    wanted = Dispatcher._compile_for_args

    def noting(dispatcher, *args, **kwargs):  # type: ignore[no-untyped-def]
        compiled.append(dispatcher.py_func.__qualname__)
        return wanted(dispatcher, *args, **kwargs)

    def solver(task: Task) -> None:
        monkeypatch.setattr(Dispatcher, "_compile_for_args", noting)
        begun.append(len(compiled))
        SOLVERS[name](task)

    begun: list[int] = []
    solve(load("resnet50-b32-v4"), name, budget=Budget(None, 400), repack=True, solvers={name: solver})
    assert len(begun) == 2  # once to warm up
    assert compiled[begun[1] :] == []
    assert gc.get_freeze_count() == 0


def test_heavy_libraries_load_only_with_the_solvers_that_need_them() -> None:
    code = "import sys, mallocmuzero.solvers.solve; print([name for name in ('jax', 'highspy') if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
