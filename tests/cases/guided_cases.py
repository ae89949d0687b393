"""Tasks and scores for the tests of the learned solvers."""

import numpy as np
from numpy.typing import NDArray

from mallocmuzero.env.workloads import load
from mallocmuzero.launch.run.guided import read_scoring_parameters
from mallocmuzero.solvers.common.budget import Budget
from mallocmuzero.solvers.common.task import Task
from mallocmuzero.solvers.learned.score import make_score

PARAMETERS = read_scoring_parameters(None)
SCORE = make_score(PARAMETERS)


def make_task(evaluations: int = 400, name: str = "resnet50-b32-v4", seed: int = 0) -> Task:
    return Task(load(name), None, None, Budget(None, evaluations), seed)


def plan_of(task: Task, preference: int = 0) -> NDArray[np.int8]:
    """A plan with one preference everywhere."""
    return np.full(len(task.tables.access), preference, np.int8)
