"""The solver `egrl`, and the methods of its paper by name."""

from collections.abc import Callable
from functools import partial

from ..common.starts import good_starts
from ..common.task import Task
from .methods import EgrlConfig, evolve, greedy_dp, policy_gradient, random_homes
from .play import Player

Method = Callable[[Player, EgrlConfig], None]

METHODS: dict[str, Method] = {
    "egrl": partial(evolve, gradient=True),
    "ea": partial(evolve, gradient=False),
    "pg": policy_gradient,
    "greedy-dp": greedy_dp,
    "random": random_homes,
}


def egrl(task: Task) -> None:
    """Evolves and learns a policy that gives tensors their homes, until the budget is spent."""
    good_starts(task, 0.0)  # so that there is a mapping at once
    play_method(task, "egrl")


def play_method(task: Task, method: str, config: EgrlConfig | None = None) -> None:
    """Runs a method in `METHODS` on a task."""
    if len(task.free):
        config = EgrlConfig() if config is None else config
        METHODS[method](Player(task, config.reward), config)
