"""Players without a plan of their own: random play, and climbs from random starts."""

from .anneal import SEARCH
from .common.plan import random_plan
from .common.starts import good_starts, random_rule_plan
from .common.task import Task
from .common.walk import Walk

# A climb ends when this many games per free access have not made it better.
_PATIENCE = 0.5
_LEAST_PATIENCE = 200


def random_play(task: Task) -> None:
    """Plays random plans, each with shares of preferences of its own, until the budget is spent."""
    task.doing = "random plans"
    while not task.done or task.best_plan is None:
        task.play(random_plan(task.tables, task.generator))


def random_restarts(task: Task) -> None:
    """Climbs from the line of a random greedy rule, over single and small changes, until no change helps for long;
    then from the next."""
    good_starts(task, 0.0)
    patience = max(_LEAST_PATIENCE, int(_PATIENCE * len(task.free)))
    climbs = 0
    while not task.done and len(task.free):
        climbs += 1
        task.doing = f"climb {climbs}"
        task.take(task.clock(float(task.generator.choice(task.clocks))))
        walk = Walk(task, random_rule_plan(task), SEARCH)
        since, reached = 0, walk.current_s
        while not task.done and since < patience:
            games = task.games_per_look()
            walk.step(games, 0.0)
            since += games
            if walk.current_s < reached:
                since, reached = 0, walk.current_s
