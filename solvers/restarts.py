"""The solvers `random`, random plans, and `restarts`, climbs from random greedy plans."""

from ..env.game.plan import random_plan
from .anneal import SEARCH
from .common.task import Task
from .common.walk import Walk
from .starts.plans import good_starts, random_rule_plan

# A climb ends after this many games per free access without improvement.
_PATIENCE = 0.5
_LEAST_PATIENCE = 200


def random_play(task: Task) -> None:
    """Plays random plans until the budget is spent, each with its own shares of preferences."""
    task.doing = "random plans"
    while not task.done or task.best_plan is None:
        task.play(random_plan(task.tables, task.generator))


def random_restarts(task: Task) -> None:
    """Climbs over small changes from the plan of a random greedy rule; then, without improvement, from the next one."""
    good_starts(task, 0.0)
    patience = max(_LEAST_PATIENCE, int(_PATIENCE * len(task.free)))
    climbs = 0
    while not task.done and len(task.free):
        climbs += 1
        task.doing = f"climb {climbs}"
        task.use(task.tables_with(float(task.generator.choice(task.msa_shares))))
        walk = Walk(task, random_rule_plan(task), SEARCH)
        since, reached = 0, walk.current_s
        while not task.done and since < patience:
            games = task.games_per_look()
            walk.step(games, 0.0)
            since += games
            if walk.current_s < reached:
                since, reached = 0, walk.current_s
