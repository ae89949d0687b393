"""The solver `guided`: verified, seeded, never worse than production."""

import numpy as np
import pytest
from guided_cases import NETWORK, fresh_params, make_task

from mallocmuzero.env.physics.objective import make_judge
from mallocmuzero.env.program.program import Program
from mallocmuzero.env.verifier.verify import verify
from mallocmuzero.env.workloads import load
from mallocmuzero.learner.fine_tune import FineTuner
from mallocmuzero.solvers.common.budget import Budget
from mallocmuzero.solvers.common.task import Task
from mallocmuzero.solvers.learned import solver as solver_module
from mallocmuzero.solvers.learned.solver import guided, make_guided
from mallocmuzero.solvers.solve import Solution, solve

pytestmark = pytest.mark.usefixtures("optimised")


def solve_guided(program: Program, budget: Budget, seed: int = 0, repack: bool = True) -> Solution:
    solver = make_guided(NETWORK, fresh_params(), lambda: FineTuner(NETWORK, fresh_params()))
    return solve(program, "guided", budget=budget, seed=seed, repack=repack, solvers={"guided": solver})


@pytest.mark.parametrize("name", ["tiny", "resnet50-b32-v4"])
def test_it_is_verified_seeded_and_never_worse_than_production(name: str) -> None:
    program = load(name)
    one, other = (solve_guided(program, Budget(None, 300), seed=1) for _ in range(2))
    judge = make_judge(program)
    assert not verify(program, program.target, one.mapping)
    assert judge.production_s is not None
    assert one.judged_s <= judge.production_s
    assert one.judged_s == judge.judge(one.mapping)
    assert np.array_equal(one.mapping.access_fast, other.mapping.access_fast)
    assert one.judged_s == other.judged_s


def test_without_time_it_is_production() -> None:
    program = load("resnet50-b32-v4")
    solution = solve_guided(program, Budget(0.0), repack=False)
    assert solution.judged_s <= (make_judge(program).production_s or 0.0)


def test_the_policy_is_trained_where_steps_are_a_small_part_of_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = []
    monkeypatch.setattr(
        solver_module, "guided", lambda task, proposer, adaptation, config: trained.append(adaptation is not None)
    )
    monkeypatch.setattr(FineTuner, "compile", lambda self: 0.01)
    solver = make_guided(NETWORK, fresh_params(), lambda: FineTuner(NETWORK, fresh_params()))
    for seconds in (1.0, 5.9, 6.1, None):
        solver(Task(load("tiny"), None, None, Budget(seconds, 10), 0))
    assert trained == [False, False, True, True]


def test_without_a_policy_it_walks_as_annealing_does() -> None:
    task = make_task(300, "tiny")
    guided(task, None)
    assert task.evaluations >= 300
    assert task.best_s < np.inf
