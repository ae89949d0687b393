"""The solver `flags`: XLA's algorithm under the grid of compiler flags in `env/program/compiler_flags.py`."""

from ..env.program.compiler_flags import flag_grid
from .common.task import Task
from .order.individual import Evaluator
from .xla.decoder import Decoder
from .xla.options import from_flags


def flags(task: Task) -> None:
    """Offers the mapping of XLA's algorithm under each setting of the grid, the default first."""
    program, target = task.game.program, task.game.judge.target
    evaluator = Evaluator(task)
    try:
        for name, settings in flag_grid().items():
            task.doing = name
            if task.done and task.evaluations:
                return
            evaluator.judge(Decoder(program, target, from_flags(target, settings)).decode())
    finally:
        evaluator.settle()
