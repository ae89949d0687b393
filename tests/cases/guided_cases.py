"""Proposers and tasks for the tests of the solver `guided`."""

import functools

import jax
import numpy as np
from numpy.typing import NDArray

from mallocmuzero.env.workloads import load
from mallocmuzero.launch.config.config import TrainConfig
from mallocmuzero.learner.networks.network import Network, Params
from mallocmuzero.solvers.common.budget import Budget
from mallocmuzero.solvers.common.task import Task
from mallocmuzero.solvers.learned.decisions import Decisions
from mallocmuzero.solvers.learned.proposer import Proposer

NETWORK = Network(TrainConfig(workloads=("tiny",)).network)


@functools.cache
def fresh_params() -> Params:
    """Fresh parameters; not made where tests are only collected."""
    return NETWORK.init(jax.random.PRNGKey(0))


def make_task(evaluations: int = 400, name: str = "resnet50-b32-v4", seed: int = 0) -> Task:
    return Task(load(name), None, None, Budget(None, evaluations), seed)


def plan_of(task: Task, preference: int = 0) -> NDArray[np.int8]:
    """A plan with one preference everywhere."""
    return np.full(len(task.tables.access), preference, np.int8)


class Favouring(Proposer):
    """Gives every move of the fourth decision the same odds, and no other move any."""

    def __init__(self, odds: float) -> None:
        super().__init__(NETWORK, fresh_params())
        self._fourth = odds

    def odds(self, decisions: Decisions) -> NDArray[np.float64]:
        found = np.zeros((len(decisions.access), 3))
        found[3] = self._fourth
        return found


class Contrary(Proposer):
    """Prefers every legal move to the line's."""

    def __init__(self) -> None:
        super().__init__(NETWORK, fresh_params())

    def odds(self, decisions: Decisions) -> NDArray[np.float64]:
        found = np.where(decisions.legal, 2.0, 0.0)
        found[np.arange(len(decisions.move)), decisions.move] = 0.0
        return found
