"""The solver `cem`: its policy's game and the plan that repeats it."""

import numpy as np
import pytest

from mallocmuzero.env.game.kernels import judge
from mallocmuzero.env.game.plan import play_plan
from mallocmuzero.env.workloads import load
from mallocmuzero.solvers.cem import play_policy
from mallocmuzero.solvers.common.budget import Budget
from mallocmuzero.solvers.common.task import Task
from mallocmuzero.solvers.restarts import random_play
from mallocmuzero.solvers.starts.plans import random_rule_plan

PROGRAM = "resnet50-b32-v4"
LOOPS = "lstm-train-b64-s32"


@pytest.mark.parametrize("name", [PROGRAM, LOOPS])
def test_a_policys_plan_makes_the_policys_game(name: str) -> None:
    task = Task(load(name), None, "msa", Budget(None, 100), 0)
    plan = np.zeros(len(task.tables.access), np.int8)
    for _ in range(5):
        weights = task.generator.standard_normal((3, 11))
        play_policy(task.compiled, weights, np.zeros(11), plan)
        played = task.finished(plan)
        moves = np.zeros(len(plan), np.int8)
        play_plan(task.plan_game, plan, moves)
        assert judge(task.tables, task.scoring, task.state) == pytest.approx(played, rel=1e-12)
    rule_plan = random_rule_plan(task)
    played = task.finished(rule_plan)
    assert task.play(rule_plan) == pytest.approx(played, rel=1e-12)
    random_play(task)
    assert task.evaluations >= 100
