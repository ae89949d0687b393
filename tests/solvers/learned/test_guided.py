"""The solvers `guided` and `policy`: verified, seeded, never worse than production."""

import numpy as np
import pytest
from guided_cases import SCORE, make_task

from mallocmuzero.env.physics.objective import make_judge
from mallocmuzero.env.program.program import Program
from mallocmuzero.env.verifier.verify import verify
from mallocmuzero.env.workloads import load
from mallocmuzero.solvers.common.budget import Budget
from mallocmuzero.solvers.learned.solver import POLICY_GAMES, guided, make_guided, make_policy
from mallocmuzero.solvers.solve import Solution, solve

SOLVERS = {"guided": make_guided(SCORE), "policy": make_policy(SCORE)}


def solved(solver: str, program: Program, budget: Budget, seed: int = 0, repack: bool = True) -> Solution:
    return solve(program, solver, budget=budget, seed=seed, repack=repack, solvers=SOLVERS)


@pytest.mark.parametrize("solver", list(SOLVERS))
@pytest.mark.parametrize("name", ["tiny", "resnet50-b32-v4"])
def test_it_is_verified_seeded_and_never_worse_than_production(name: str, solver: str) -> None:
    program = load(name)
    one, other = (solved(solver, program, Budget(None, 300), seed=1) for _ in range(2))
    judge = make_judge(program)
    assert not verify(program, program.target, one.mapping)
    assert judge.production_s is not None
    assert one.judged_s <= judge.production_s
    assert one.judged_s == judge.judge(one.mapping)
    assert np.array_equal(one.mapping.access_fast, other.mapping.access_fast)
    assert one.judged_s == other.judged_s


def test_without_time_it_is_production() -> None:
    program = load("resnet50-b32-v4")
    solution = solved("guided", program, Budget(0.0), repack=False)
    assert solution.judged_s <= (make_judge(program).production_s or 0.0)


def test_without_a_policy_it_walks_as_annealing_does() -> None:
    task = make_task(300, "tiny")
    guided(task, None)
    assert task.evaluations >= 300
    assert task.best_s < np.inf


def test_the_policy_alone_ends_by_itself() -> None:
    solution = solved("policy", load("alexnet-train-b128"), Budget(60.0))
    assert solution.ended
    # The starts, and the games of the climb, which may play its last batch to the end.
    assert solution.evaluations < POLICY_GAMES + 200
