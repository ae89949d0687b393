"""The search over XLA's buffer orders as a part of the solver `guided`, and the rule that stops it."""

from ...env.program.mapping import Mapping
from ..common.task import Task
from ..order.solver import order_search
from .config import GuidedConfig

# Differences below this share of a latency are rounding.
_ROUNDING = 1e-9


def search_orders(task: Task, config: GuidedConfig) -> Mapping | None:
    """Searches XLA's orders until `OrderStop` ends it; offers and returns the best mapping, None if there is none."""
    task.doing = "orders"
    stop = OrderStop(task, config)
    part = task.part(config.order_max_share, lambda: task.done or stop.reached(part))
    order_search(part)
    task.evaluations += part.evaluations
    mapping = part.mapping()
    if mapping is not None:
        task.offer_mapping(mapping)
    return mapping


class OrderStop:
    """An early-stopping rule.

    The search goes on while the second half of its time has gained more than it is behind the best mapping known
    before, and while nothing beats production.
    """

    def __init__(self, task: Task, config: GuidedConfig) -> None:
        self._config, self._to_beat_s = config, task.best_s
        self._production_s = task.game.judge.production_s
        self._bests: list[tuple[float, float]] = []  # share of its time spent, best seconds by then

    def reached(self, part: Task) -> bool:
        """Returns whether the search should end. Every call records the progress of `part`."""
        if not self._bests or part.best_s < self._bests[-1][1]:
            self._bests.append((part.spent, part.best_s))
        if part.spent * self._config.order_max_share < self._config.order_min_share:
            return False
        best_s = min(self._to_beat_s, part.best_s)
        if self._production_s is not None and best_s >= (1.0 - _ROUNDING) * self._production_s:
            return False
        before_s = next((s for at, s in reversed(self._bests) if at <= 0.5 * part.spent), self._bests[0][1])
        return not before_s - part.best_s > max(part.best_s - self._to_beat_s, 0.0)
