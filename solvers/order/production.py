"""What XLA's algorithm makes of a program with its buffers in other orders: often better than production, and a line of
play to begin from."""

from functools import lru_cache

from ...env.program.mapping import Mapping
from ...env.program.program import Program
from ..common.task import Budget, Task
from .solver import order_search


@lru_cache(maxsize=256)
def ordered_mapping(program: Program, objective: str | None, orders: int) -> Mapping | None:
    """Returns the best of `orders` mappings of `order-search`, None if it finds none. Every process that asks finds the
    same: what they play by depends on it."""
    task = Task(program, None, objective, Budget(None, orders), seed=0)
    order_search(task)
    return task.mapping()
